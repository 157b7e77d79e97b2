"""Best of n as tables, as a picture and as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

import numpy as np

from palate.downstream.best_of_n import BestOf, Picked
from palate.metrics import Estimate, smallest_sign_flip_p
from palate.metrics.selection import BestOfPoint
from palate.reports.names import context_name, legend, short_names
from palate.reports.numbers import NONE, p_value, plain, with_interval, without_interval
from palate.reports.pictures import panels, save
from palate.reports.table import Table

ORACLE = "the best possible"
NOTE = (
    "quality of the answer picked among k samples, over all k-subsets of the samples, ties split; "
    "intervals by {}. ≈: k is over half the samples, so the subsets overlap and the figure rests "
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
        at = _told(found, picked)
        rows = [
            [
                names[one.scorer], context_name(one.context, oracle=one.oracle),
                *(_level(p.best, solid=p.solid) for p in one.curve.points),
                _figure(one.curve.points[at], "gain"), p_value(one.p_holm[at]),
                _figure(one.curve.points[at], "headroom"),
            ]
            for one in picked
        ]  # fmt: skip
        points, rest = picked[0].curve.points, [NONE] * 3
        rows.append([ORACLE, NONE, *(_level(p.oracle, solid=p.solid) for p in points), *rest])
        rows.append(["KL bound", NONE, *(plain(p.kl_bound) for p in points), *rest])
        by = _clustering(found, picked[0])
        notes = [NOTE.format(by), f"gain and headroom at k = {found.ks[at]}. {HEADROOM} {BOUND}"]
        if by == "user":
            notes += _least_p(picked, at)
        notes += without_interval(
            (f"{names[one.scorer]}, {context_name(one.context)}, {which}",
             getattr(one.curve.points[at], which).note)
            for one in picked for which in ("best", "gain", "headroom")
        )  # fmt: skip
        notes += [*_peaks(picked, names), *_counts(found, picked, names)]
        notes += [*([stands] if (stands := legend(names)) else [])]
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
        "mirrors": _mirrors(found),
        "unrated": found.unrated,
        "downstream": [_entry(one) for one in found.picked],
    }  # fmt: skip


def plot_best_of(found: BestOf, file: Path) -> None:
    """Draw quality against k, a panel per measure; beyond half the samples dashed.

    A triangle is where picking stops helping, as far as the fitted sizes show it.

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
            _peak(ax, one, f"C{k % 10}")
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


def _peak(ax: Any, one: Picked, colour: str) -> None:
    bend, level = one.bend, one.curve.random.value
    if bend is None or bend.peak != "within" or bend.peak_gain is None or level is None:
        return
    ax.plot(bend.peak_k, level + bend.peak_gain, color=colour, marker="v", ms=8, mfc="none")


def _told(found: BestOf, picked: list[Picked]) -> int:
    """Return which k's gain is told: the largest without reserve, else the smallest above 1.

    At k = 1 nothing is picked, so it is told only where there is no other.
    """
    above = [at for at, k in enumerate(found.ks) if k > 1]
    there = [one.curve.points for one in picked if one.curve.n_questions]
    solid = [at for at in above if all(points[at].solid for points in there)]
    return solid[-1] if solid else (above or [0])[0]


def _clustering(found: BestOf, one: Picked) -> str:
    """Say over what the intervals of a measure are."""
    if one.mirrors is None:
        return "user and question, which users share" if found.shared_questions else "user"
    couples = {
        (question, *sorted((user, found.users[mirror])))
        for question, user, mirror in zip(found.questions, found.users, one.mirrors, strict=True)
    }
    shared = len(couples) > len(set(found.questions))
    return f"user over couples{' and by question, which couples share' if shared else ''}"


def _least_p(picked: list[Picked], at: int) -> list[str]:
    """Say which p so few users can reach, where that is none below 0.05."""
    users = max(one.curve.points[at].gain.n_units for one in picked)
    tested = {(one.scorer, one.by_row.tobytes()) for one in picked if one.p_holm[at] is not None}
    if not users or not tested:
        return []
    least = smallest_sign_flip_p(users)
    among = min(1.0, least * len(tested))
    if among <= 0.05:
        return []
    by = f"; Holm over {len(tested)} scorers makes it {p_value(among)}" if len(tested) > 1 else ""
    return [
        f"with {users} users no p by sign flips can be under {p_value(least)}{by}: read the "
        "interval, and ask more users."
    ]


def _peaks(picked: list[Picked], names: Mapping[str, str]) -> list[str]:
    """Say where picking stops helping, of the scorers for which that is shown."""
    said = []
    for one in picked:
        bend = one.bend
        if bend is None or bend.peak == "none":
            continue
        who = f"{names[one.scorer]} · {one.context}"
        if bend.peak == "start":
            where = "picking by it loses from the first step"
        else:
            k = "e^600" if bend.peak_k is None else f"{bend.peak_k:,.3g}"
            far = "" if bend.peak == "within" else ", beyond the sizes fitted and so a guess"
            where = (
                f"quality peaks near k = {k} at {plain(bend.peak_gain, signed=True)} over one "
                f"sample{far}"
            )
        said.append(f"over-optimisation: {who}: {where}.")
    return said


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


def _mirrors(found: BestOf) -> list[str] | None:
    """Return the id of each row's mirrored row, where there are contrasts."""
    mirrors = next((one.mirrors for one in found.picked if one.mirrors is not None), None)
    return None if mirrors is None else [found.rows[k] for k in mirrors]


def _entry(one: Picked) -> dict[str, Any]:
    curve = asdict(one.curve)
    for at, point in enumerate(curve["points"]):
        point["gain"]["p_holm"] = one.p_holm[at]
    return {
        "scorer": one.scorer, "context": one.context, "oracle": one.oracle,
        "models": list(one.models),
        "quality": one.quality, "surrogate": one.surrogate, "contrast": one.mirrors is not None,
        "curve": curve,
        "over_optimisation": None if one.bend is None else asdict(one.bend),
        "by_row": [[None if np.isnan(v) else float(v) for v in row] for row in one.by_row],
        "unscored": one.reasons, "notes": list(one.notes),
    }  # fmt: skip


def _level(found: Estimate, *, solid: bool) -> str:
    return f"{'' if solid else '≈'}{plain(found.value)}"


def _figure(point: BestOfPoint, which: Literal["gain", "headroom"]) -> str:
    found = point.gain if which == "gain" else point.headroom
    text = with_interval(found.value, found.low, found.high, signed=which == "gain")
    return text if point.solid or found.value is None else f"≈{text}"
