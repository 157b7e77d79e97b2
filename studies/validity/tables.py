"""All tables of the study and its picture, from what study.py left in WORK.

python -m studies.validity.tables WORK studies/validity/prediction.png > studies/validity/tables.md
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from palate.reports import Form, Table, context_name, render
from palate.reports.names import short_names
from palate.reports.numbers import NONE, p_value, plain, with_interval
from palate.reports.parts import panels, save
from palate.specs import Spec
from palate.validity import METRICS
from studies.validity.study import BENCHMARKS, MAIN

Entry = dict[str, Any]


def main() -> None:
    """Print the tables and draw the picture."""
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    work = Path(sys.argv[1])
    found = {study: said for study in BENCHMARKS if (said := _read(work, study)) is not None}
    if not found:
        raise SystemExit(f"{work}: no study has ended there yet; run study.py")
    tables = []
    for study, said in found.items():
        tables += [agreement(study, said), every_measure(study, said)]
        tables += [differences(study, said), scorers(study, said)]
    sys.stdout.write(render(tables, Form.MARKDOWN))
    draw({study: said["coefficients"] for study, said in found.items()}, Path(sys.argv[2]))


def agreement(study: str, said: Entry) -> Table:
    """Return τ of each metric with what was chosen beforehand, and what noise leaves to find."""
    rows = []
    for one in said["coefficients"]:
        if one["downstream"]["quality"] not in MAIN[study]:
            continue
        tau = one["agreements"][0]
        over = tau["interval"]
        rows.append([
            one["metric"], one["benchmark"], _short(one["downstream"]["quality"]), str(tau["n"]),
            with_interval(tau["value"], over["low"], over["high"]),
            f"{p_value(tau['chance']['p'])} / {p_value(one['p_holm'][0])}",
            _reliability(one["reliability"]), _reliability(one["downstream_reliability"]),
            plain(one["noise_ceiling"]),
        ])  # fmt: skip
    columns = ["metric", "of", "quality of the picks", "scorers", "τ [95 % over scorers]",
               "p / Holm", "reliability", "of the picks", "noise ceiling"]  # fmt: skip
    of = said["coefficients"][0]["downstream"]
    title = f"{study}: which metric predicts the best of {of['k']} of {of['n_samples']}"
    return Table(title, columns, rows, [], 3)


def _reliability(of: Entry | None) -> str:
    return NONE if of is None else with_interval(of["value"], of["low"], of["high"])


def every_measure(study: str, said: Entry) -> Table:
    """Return τ of each figure with every measure of what the scorers picked, and its p."""
    measures = list(dict.fromkeys(one["downstream"]["quality"] for one in said["coefficients"]))
    by: dict[tuple[str, str], dict[str, Entry]] = {}
    for one in said["coefficients"]:
        figure = one["metric"], one["benchmark"]
        by.setdefault(figure, {})[one["downstream"]["quality"]] = one["agreements"][0]
    rows = [
        [*figure, str(next(iter(own.values()))["n"]),
         *(f"{plain(own[one]['value'])} ({p_value(own[one]['chance']['p'])})" for one in measures)]
        for figure, own in by.items()
    ]  # fmt: skip
    columns = ["metric", "of", "scorers", *map(_short, measures)]
    notes = ["τ, and its p against random rankings as it is, without a correction."]
    return Table(f"{study}: with every measure", columns, rows, notes, 2)


def differences(study: str, said: Entry) -> Table:
    """Return which metric predicts better: the comparisons that palate names beforehand."""
    rows = []
    for one in said["differences"]:
        tau = one["tau"]
        rows.append([
            _short(one["downstream"]["quality"]),
            *(f"{metric} of {name}" for name, metric in (one["first"], one["second"])),
            str(one["n"]), plain(tau["first"]), plain(tau["second"]),
            plain(tau["value"], signed=True), f"{p_value(tau['p'])} / {p_value(one['p_holm'])}",
        ])  # fmt: skip
    columns = ["quality of the picks", "first", "second", "scorers", "τ of the first",
               "of the second", "difference", "p / Holm"]  # fmt: skip
    return Table(f"{study}: which predicts better", columns, rows, [], 3)


def scorers(study: str, said: Entry) -> Table:
    """Return every scorer with its figures and the quality of its picks, best first."""
    by: dict[tuple[str, str], dict[str, float]] = {}
    of = {one["metric"]: one["benchmark"] for one in said["coefficients"]}
    for one in said["coefficients"]:
        for own in one["scorers"]:
            row = by.setdefault((own["scorer"], own["context"]), {})
            row[one["metric"]] = own["metric_value"]  # of the last benchmark that has it
            row[one["downstream"]["quality"]] = own["downstream_value"]
    measures = list(dict.fromkeys(one["downstream"]["quality"] for one in said["coefficients"]))
    shown = [one for one in METRICS if any(one in row for row in by.values())]
    names = _names([scorer for scorer, _ in by])
    rows = [
        [names[scorer], context_name(context),
         *(plain(row[one]) if one in row else NONE for one in (*shown, *measures))]
        for (scorer, context), row in sorted(by.items(), key=lambda item: -item[1][measures[0]])
    ]  # fmt: skip
    columns = ["scorer", "context", *shown, *map(_short, measures)]
    note = "; ".join(f"{one} of {of[one]}" for one in shown)
    note += "; –: has none, or is blind, and so at ½ in the contrast"
    return Table(f"{study}: the scorers, best picks first", columns, rows, [f"{note}."], 2)


def draw(found: dict[str, list[Entry]], file: Path) -> None:
    """Draw each figure against what was chosen beforehand, a row per measure."""
    rows = [(study, quality) for study in found for quality in MAIN[study]]
    known = {one["metric"] for entries in found.values() for one in entries}
    shown = [metric for metric in METRICS if metric in known]
    figure, axes = panels(len(rows), len(shown), (3.1, 2.9))
    for row, (study, quality) in zip(axes, rows, strict=True):
        for ax, metric in zip(row, shown, strict=True):
            own = [one for one in found[study] if one["downstream"]["quality"] == quality]
            _scatter(ax, study, metric, [one for one in own if one["metric"] == metric])
    save(figure, file)


def _scatter(ax: Any, study: str, metric: str, some: Sequence[Entry]) -> None:
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(labelsize=7)
    ax.set_xlabel(f"{metric}, {study}", fontsize=8)
    if not some:
        ax.set_axis_off()
        return
    one = some[-1]
    for reads, color in ((False, "0.6"), (True, "C0")):
        own = [own for own in one["scorers"] if (own["context"] != "none") == reads]
        if not own:
            continue
        x, y = ([each[side] for each in own] for side in ("metric_value", "downstream_value"))
        ax.scatter(x, y, s=14, color=color, label="shown the user" if reads else "shown nothing")
    tau = one["agreements"][0]
    over = tau["interval"]
    ax.set_title(f"τ {with_interval(tau['value'], over['low'], over['high'])}, n {tau['n']}",
                 fontsize=8, loc="left")  # fmt: skip
    of = one["downstream"]
    ax.set_ylabel(f"best of {of['k']}: {_short(of['quality'])}", fontsize=8)
    ax.locator_params(axis="x", nbins=5)
    ax.legend(fontsize=6, frameon=False)


def _names(scorers: Sequence[str]) -> dict[str, str]:
    heads = {s: f"head {(Spec.parse(s).reference or '').rsplit('/', 1)[-1]}"
             for s in scorers if s.startswith("personal:")}  # fmt: skip
    return {**short_names([s for s in scorers if s not in heads]), **heads}


def _short(quality: str) -> str:
    before, contrast, named = quality.rpartition("contrast of ")
    kind, _, rest = named.partition(":")
    return before + contrast + (rest.partition("?")[0] if kind == "overlap" else kind)


def _read(work: Path, study: str) -> Entry | None:
    file = work / f"{study}-validity.json"
    if not file.is_file():
        return None
    said: Entry = json.loads(file.read_text(encoding="utf-8"))
    return said


if __name__ == "__main__":
    main()
