"""Best of n as tables, as a picture and as JSON."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from palate.downstream.best_of_n import BestOf, Picked
from palate.metrics import Estimate
from palate.reports.names import context_name, legend, short_names
from palate.reports.numbers import NONE, p_value, plain, with_interval
from palate.reports.pictures import panels, save
from palate.reports.table import Table

ORACLE = "the best possible"
NOTE = (
    "quality of the answer picked among k samples, over all k-subsets of the samples, ties split; "
    "intervals by user. ≈: k is over half the samples, so the subsets overlap and the figure rests "
    "on few of them."
)
HEADROOM = "headroom: share of the best possible gain that the scorer's picks reach."
BOUND = "KL bound: the most that picking the best of k moves the policy, in nats."


def best_of_tables(found: BestOf) -> list[Table]:
    """Return a table per measure of quality: a row per scorer and context, a column per k."""
    names = short_names([one.scorer for one in found.picked])
    tables = []
    for quality in dict.fromkeys(one.quality for one in found.picked):
        picked = [one for one in found.picked if one.quality == quality]
        named = f"{quality} (a surrogate)" if picked[0].surrogate else quality
        n = len(found.samples.rows)
        title = (
            f"{found.benchmark}: best of {found.samples.n} by {found.samples.policy}, {named}, "
            f"{picked[0].curve.n_questions:,} of {n:,} questions"
        )
        columns = ["scorer", "context", *(f"best of {k}" for k in found.ks), "gain [95 %]",
                   "p (Holm)", "headroom [95 %]"]  # fmt: skip
        at = _told(found)
        rows = [
            [
                names[one.scorer], context_name(one.context, oracle=one.oracle),
                *(_level(p.best, solid=p.solid) for p in one.curve.points),
                _figure(one.curve.points[at].gain, signed=True), p_value(one.p_holm[at]),
                _figure(one.curve.points[at].headroom),
            ]
            for one in picked
        ]  # fmt: skip
        points, rest = picked[0].curve.points, [NONE] * 3
        rows.append([ORACLE, NONE, *(_level(p.oracle, solid=p.solid) for p in points), *rest])
        rows.append(["KL bound", NONE, *(plain(p.kl_bound) for p in points), *rest])
        notes = [NOTE, f"gain and headroom at k = {found.ks[at]}. {HEADROOM} {BOUND}"]
        notes += [*_counts(found, picked, names), *([stands] if (stands := legend(names)) else [])]
        tables.append(Table(title, columns, rows, notes, 2, frozenset({len(picked) - 1})))
    return tables


def best_of_json(found: BestOf) -> dict[str, Any]:
    """Return the document that `--format json` prints and `palate validity` reads."""
    return {
        "schema": 1,
        "kind": "best-of-n",
        "benchmark": found.benchmark,
        "policy": found.samples.policy,
        "samples": {"n": found.samples.n, "content": found.samples.content,
                    **found.samples.counts},
        "ks": list(found.ks),
        "rows": list(found.rows),
        "users": list(found.users),
        "questions": list(found.questions),
        "contents": list(found.contents),
        "unrated": found.unrated,
        "downstream": [_entry(one) for one in found.picked],
    }  # fmt: skip


def plot_best_of(found: BestOf, file: Path) -> None:
    """Draw quality against k, a panel per measure; beyond half the samples dashed.

    Raises `UsageError` without matplotlib, or where the file cannot be written.
    """
    names = short_names([one.scorer for one in found.picked])
    qualities = list(dict.fromkeys(one.quality for one in found.picked))
    figure, (axes,) = panels(1, len(qualities), (5.4, 4.2))
    for ax, quality in zip(axes, qualities, strict=True):
        picked = [one for one in found.picked if one.quality == quality]
        for k, one in enumerate(picked):
            shown = "" if one.context == "none" else f" · {one.context}"
            _line(ax, found, one, "best", f"C{k % 10}", f"{names[one.scorer]}{shown}")
        _line(ax, found, picked[0], "oracle", "black", ORACLE)
        level = picked[0].curve.random.value
        if level is not None:
            ax.axhline(level, color="grey", lw=0.9, ls=":", label="one sample")
        ax.set_xscale("log", base=2)
        ax.set_xticks(found.ks, [str(k) for k in found.ks])
        ax.set_xlabel("k samples")
        ax.set_title(quality, fontsize=10, loc="left")
        ax.spines[["top", "right"]].set_visible(False)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right center", frameon=False, fontsize=8)
    save(figure, file)


def _line(ax: Any, found: BestOf, one: Picked, which: str, colour: str, label: str) -> None:
    points = [(p.k, getattr(p, which), p.solid) for p in one.curve.points]
    known = [(k, e.value, solid) for k, e, solid in points if e.value is not None]
    solid = [(k, value) for k, value, firm in known if firm]
    dashed = solid[-1:] + [(k, value) for k, value, firm in known if not firm]
    style: dict[str, Any] = {"color": colour, "lw": 1.4, "marker": "o", "ms": 3}
    ax.plot(*np.array(solid).reshape(-1, 2).T, label=label, **style)
    ax.plot(*np.array(dashed).reshape(-1, 2).T, ls="--", **style)
    if which == "best":
        ends = [(k, e.low, e.high) for k, e, _ in points if e.low is not None]
        if ends:
            k, low, high = np.array(ends).T
            ax.fill_between(k, low, high, color=colour, alpha=0.07, lw=0)


def _told(found: BestOf) -> int:
    """Return the largest k that is told without reserve: half the samples."""
    solid = [at for at, k in enumerate(found.ks) if 2 * k <= found.samples.n]
    return solid[-1] if solid else 0


def _counts(found: BestOf, picked: list[Picked], names: dict[str, str]) -> list[str]:
    counts = found.samples.counts
    said = [f"{counts[what]:,} {what}" for what in ("empty", "cut off", "repeated") if counts[what]]
    notes = [f"Of {counts['samples']:,} samples {', '.join(said)}."] if said else []
    curve = picked[0].curve
    left_out = len(found.samples.rows) - curve.n_questions
    if left_out:
        notes.append(
            f"{left_out:,} questions left out, with fewer than {max(found.ks)} samples that all of "
            "these scorers scored and the measure rated."
        )
    unrated = found.unrated[picked[0].quality]
    if unrated:
        why = "; ".join(f"{n:,} {reason}" for reason, n in unrated.items())
        notes.append(f"{sum(unrated.values()):,} samples have no quality ({why}).")
    for one in picked:
        if one.reasons:
            why = "; ".join(f"{n:,} {reason}" for reason, n in one.reasons.items())
            notes.append(f"{names[one.scorer]} · {one.context}: unscored samples: {why}.")
        notes += [f"{names[one.scorer]}: {note}" for note in one.notes]
    return list(dict.fromkeys(notes))


def _entry(one: Picked) -> dict[str, Any]:
    curve = asdict(one.curve)
    for at, point in enumerate(curve["points"]):
        point["gain"]["p_holm"] = one.p_holm[at]
    return {
        "scorer": one.scorer, "context": one.context, "oracle": one.oracle,
        "quality": one.quality, "surrogate": one.surrogate, "curve": curve,
        "over_optimisation": None if one.bend is None else asdict(one.bend),
        "by_row": [[None if np.isnan(v) else float(v) for v in row] for row in one.by_row],
        "unscored": one.reasons, "notes": list(one.notes),
    }  # fmt: skip


def _level(found: Estimate, *, solid: bool) -> str:
    return f"{'' if solid else '≈'}{plain(found.value)}"


def _figure(found: Estimate, *, signed: bool = False) -> str:
    return with_interval(found.value, found.low, found.high, signed=signed)
