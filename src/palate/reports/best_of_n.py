"""Best of n, and the scores behind it: tables, and pictures and tables of a page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Literal

import numpy as np

from palate.answers.scores import SampleScores
from palate.metrics import BestOfPoint, Estimate, smallest_sign_flip_p
from palate.records.arguments import grouped
from palate.reports.names import Names, ShortNames, context_name, legend, short_names
from palate.reports.numbers import NONE, counted, figure, p_value, plain, without_interval
from palate.reports.parts import INK, MOST_LINES, Text, picture, section
from palate.reports.plots import LEVEL_LINE, draw_line, line_style
from palate.reports.table import Table
from palate.uses.best_of_n import BestOfResult, Selection
from palate.uses.forecast import Forecast

ORACLE = "the best possible"
NOTE = (
    "quality of the answer picked among k samples, over all k-subsets of the samples, ties split; "
    "intervals by {}. ≈: k is over half the samples, so the subsets overlap and the value is "
    "less certain."
)
ORACLE_SHARE = "oracle share: share of the best possible gain that the scorer's picks reach."
FORECAST = (
    "A forecast is of the oracle share: 0 is one sample, 1 the best possible pick. skill: "
    "correlation of score and quality over these answers, by the run's margins."
)
BOUND = "KL bound, the most that picking the best of k moves the policy, in nats:"


def tables(result: BestOfResult) -> list[Table]:
    """Return a table per measure of quality: a row per scorer and context, a column per k."""
    names = short_names(cell.scorer for cell in result.summary.cells)
    by_quality = grouped(result.summary.cells, lambda cell: cell.quality)
    return [_table(result, picked, names) for picked in by_quality.values()]


def _table(result: BestOfResult, picked: list[Selection], names: ShortNames) -> Table:
    summary, first = result.summary, picked[0]
    place, points = _told(summary.ks, picked), first.curve.points
    title = (
        f"{summary.benchmark}: best of {summary.samples.n} by {summary.policy}, "
        f"{first.quality}{' (a surrogate)' * first.surrogate}, "
        f"{first.curve.n_questions:,} of {len(result.rows):,} questions"
    )
    columns = ["scorer", "context", *(f"best of {k}" for k in summary.ks)]
    columns += ["gain [95 %]", "p (Holm)", "oracle share [95 %]"]
    rows = [
        [
            *names.cells(one),
            *(_level(p, p.best) for p in one.curve.points),
            _figure(one.curve.points[place], "gain"),
            p_value(one.p_holm[place]),
            _figure(one.curve.points[place], "oracle_share"),
        ]
        for one in picked
    ]
    rows.append([ORACLE, NONE, *(_level(p, p.oracle) for p in points), *[NONE] * 3])
    by, k, counts = _clustering(result, first), summary.ks[place], summary.samples
    bounds = ", ".join(f"{plain(p.kl_bound)} at {p.k}" for p in points)
    cut_off = f"{counts.cut_off:,} of {counts.samples:,} samples are cut off: raise max_tokens."
    notes = [
        *[cut_off] * (counts.cut_off > 0),
        _finding(picked, names, place, k),
        NOTE.format(by),
        f"gain and oracle share at k = {k}. {ORACLE_SHARE} {BOUND} {bounds}.",
        *(_least_p(result, picked, place) if by == "user" else []),
        *without_interval(
            (f"{names.place(one)}, {which}", getattr(one.curve.points[place], which).note)
            for one in picked
            for which in ("best", "gain", "oracle_share")
        ),
        *_peaks(picked, names),
        *dict.fromkeys(_counts(result, picked, names)),
        *legend(names, end=""),
    ]
    return Table(title, columns, rows, notes, 2, frozenset({len(picked) - 1}))


def _finding(picked: list[Selection], names: ShortNames, place: int, k: int) -> str:
    """Say in a sentence which scorers pick better, or worse, answers than a blind draw."""
    verbs: dict[str, list[str]] = {"raises": [], "lowers": []}
    for one in picked:
        p, gain = one.p_holm[place], one.curve.points[place].gain
        if p is not None and p < 0.05 and gain.value:
            who = f"{names.place(one)} ({figure(gain, signed=True)})"
            verbs["raises" if gain.value > 0 else "lowers"].append(who)
    told = [f"picking by {' and '.join(who)} {verb} quality" for verb, who in verbs.items() if who]
    return f"At k = {k} {'; '.join(told) or 'no scorer is shown to pick better than chance'}."


def _told(ks: tuple[int, ...], picked: list[Selection]) -> int:
    """Return whose gain is told: the largest k without reserve, else the smallest above 1, or 1."""
    above = [at for at, k in enumerate(ks) if k > 1]
    there = [one.curve.points for one in picked if one.curve.n_questions]
    reliable = [at for at in above if all(points[at].reliable for points in there)]
    return reliable[-1] if reliable else (above or [0])[0]


def _clustering(result: BestOfResult, one: Selection) -> str:
    """Say over what the intervals of a measure are."""
    mirrors = result.mirrors if one.contrast else None
    units = result.figures.units(np.zeros(len(result.rows)), mirrors)
    shared = units.clusters.items is not None
    if one.contrast:
        return f"user over couples{' and by question, which couples share' if shared else ''}"
    return "user and question, which users share" if shared else "user"


def _least_p(found: BestOfResult, picked: list[Selection], place: int) -> list[str]:
    """Say which p so few users can reach, where that is none below 0.05."""
    users = max(one.curve.points[place].gain.n_units for one in picked)
    tested = {
        (one.scorer, found.expected[:, k].tobytes())
        for k, one in enumerate(found.summary.cells)
        if one in picked and one.p_holm[place] is not None
    }
    least = smallest_sign_flip_p(users) if users else 0.0
    among = min(1.0, least * len(tested))
    if among <= 0.05:
        return []
    by = f"; Holm over {len(tested)} scorers makes it {p_value(among)}" if len(tested) > 1 else ""
    return [
        f"with {users} users no p by sign flips can be under {p_value(least)}{by}: read the "
        "interval, or add users."
    ]


def _peaks(picked: list[Selection], names: ShortNames) -> Iterator[str]:
    """Say where picking stops helping, of the scorers for which that is shown."""
    for selection in picked:
        fit = selection.over_optimisation
        if fit is None or fit.peak == "none":
            continue
        where = "picking by it lowers quality from the first step"
        if fit.peak != "start":
            k = "e^600" if fit.peak_k is None else f"{fit.peak_k:,.3g}"
            far = "" if fit.peak == "within" else ", beyond the fitted sizes and so extrapolated"
            gain = plain(fit.peak_gain, signed=True)
            where = f"quality peaks near k = {k} at {gain} over one sample{far}"
        yield f"over-optimisation: {names[selection.scorer]} · {selection.context}: {where}."


def _counts(result: BestOfResult, picked: list[Selection], names: ShortNames) -> Iterator[str]:
    counts, ks = result.summary.samples, result.summary.ks
    if told := counted({"empty": counts.empty, "repeated": counts.repeated}):
        yield f"Of {counts.samples:,} samples {', '.join(told)}."
    if left_out := picked[0].curve.n_left_out:
        yield (
            f"{left_out:,} questions left out, with fewer than {max(ks)} samples that all of "
            "these scorers scored and the measure rated."
        )
    if unrated := result.summary.unrated[picked[0].quality]:
        yield f"{sum(unrated.values()):,} samples have no quality ({'; '.join(counted(unrated))})."
    for one in picked:
        yield from unscored_notes(one.unscored_reasons, names[one.scorer], one.context)
        yield from (f"{names[one.scorer]}: {note}" for note in one.notes)


def _level(point: BestOfPoint, level: Estimate) -> str:
    return f"{'' if point.reliable else '≈'}{plain(level.value)}"


def _figure(point: BestOfPoint, which: Literal["gain", "oracle_share"]) -> str:
    found = getattr(point, which)
    text = figure(found, signed=which == "gain")
    return text if point.reliable or found.value is None else f"≈{text}"


def parts(result: BestOfResult, names: Names, number: int) -> Iterator[object]:
    """Yield a drawing a measure, each with its table."""
    yield Text("The best of n answers, chosen by a scorer", "h3")
    by_quality = grouped(result.summary.cells, lambda cell: cell.quality).items()
    for k, ((quality, selections), table) in enumerate(
        zip(by_quality, tables(result), strict=True)
    ):
        picked = selections[:MOST_LINES]
        yield picture(
            f"best-of-{number}-{k}",
            f"Quality of the best of n, {names.public(quality)}",
            "Quality of the answer that a scorer picks among so many; hollow where so many are "
            "over half of the samples. The dotted line is the best possible pick, the dashed line "
            "one sample. Short vertical lines are 95 % intervals.",
            names.table(table),
            partial(best_of_lines, selections=[*zip(names.labels(picked), picked, strict=True)]),
        )


def score_tables(found: SampleScores) -> list[Table]:
    """Return the table of one scorer's scores: how many samples have one."""
    summary, reasons = found.summary, found.summary.unscored_reasons
    columns = {
        "scorer": summary.scorer,
        "context": context_name(summary.context, oracle=summary.oracle),
        "rows": f"{summary.n_rows:,}",
        "samples": f"{summary.n_rows * summary.n_samples:,}",
        "unscored": f"{sum(reasons.values()):,}",
    }
    notes = [*unscored_notes(reasons, summary.scorer, summary.context), *summary.notes]
    title = f"{summary.benchmark}: scores of samples by {summary.policy}"
    return [Table(title, [*columns], [[*columns.values()]], notes, 2)]


def forecast_tables(result: Forecast) -> list[Table]:
    """Return what is forecast of each scorer: a column for every k."""
    summary, names = result.summary, short_names(cell.scorer for cell in result.summary.cells)
    title = f"{summary.benchmark}: forecast of the best of {summary.samples.n} by {summary.policy}"
    columns = ["scorer", "context", "of", "accuracy", "skill [90 %]"]
    columns += [f"best of {share.k} [90 %]" for share in summary.cells[0].shares]
    rows = [
        [*names.cells(it), it.target, plain(it.accuracy), figure(it.skill), *map(figure, it.shares)]
        for it in summary.cells
    ]
    at, before = (it.at, it.before_rating) if (it := result.written) else ("in memory", False)
    known = "no best-of-n of these answers was there" if before else "not shown to precede ratings"
    notes = [f"{FORECAST} Written {at}: {known}.", *legend(names, end="")]
    return [Table(title, columns, rows, notes, 2)]


forecast_parts = section("What the best of n answers were forecast to give", forecast_tables)


def unscored_notes(reasons: Mapping[str, int], scorer: str, context: str) -> list[str]:
    """Say which samples a scorer left without a score, where there are any."""
    listed = "; ".join(counted(reasons))
    return [f"{scorer} · {context}: unscored samples: {listed}."] if reasons else []


def best_of_lines(ax: Any, selections: Sequence[tuple[str, Selection]]) -> None:
    """Draw quality by k, hollow over half of the samples; a triangle is where help ends."""
    curve = selections[0][1].curve
    level, ks = curve.random.value, [point.k for point in curve.points]
    for k, (name, selection) in enumerate(selections):
        points = [p for p in selection.curve.points if p.best.value is not None]
        draw_line(ax, k, name, [(p.k, p.best) for p in points], [p.reliable for p in points])
        fit = selection.over_optimisation
        if fit and fit.peak == "within" and fit.peak_gain is not None and level is not None:
            triangle = {"color": line_style(k)["color"], "marker": "v", "ms": 8, "mfc": "none"}
            ax.plot(fit.peak_k, level + fit.peak_gain, **triangle)
    best = [(p.k, p.oracle.value) for p in curve.points if p.oracle.value is not None]
    x, y = zip(*best, strict=True) if best else ((), ())
    ax.plot(x, y, color=INK, lw=1.2, ls=":", marker="_", label="the best possible")
    if level is not None:
        ax.axhline(level, label="one sample", **LEVEL_LINE)
    ax.set_xscale("log", base=2)
    ax.set_xticks(ks, [str(k) for k in ks])
    ax.set(xlabel="answers to choose from", ylabel="quality")
    ax.grid(axis="y")
