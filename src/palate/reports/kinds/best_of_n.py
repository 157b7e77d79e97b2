"""Best of n as tables, and as pictures and tables of a page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Literal

from palate.metrics import Estimate, smallest_sign_flip_p
from palate.metrics.selection import BestOfPoint
from palate.reports.kinds.scores import unscored_notes
from palate.reports.names import context_name, legend, short_names
from palate.reports.numbers import NONE, counted, figure, p_value, plain, without_interval
from palate.reports.page.figures.curves import best_of_lines
from palate.reports.page.figures.drawing import picture
from palate.reports.page.names import Names
from palate.reports.page.parts import MOST_LINES, Text
from palate.reports.table import Table
from palate.uses.best_of_n import BestOfResult, Selection

ORACLE = "the best possible"
NOTE = (
    "quality of the answer picked among k samples, over all k-subsets of the samples, ties split; "
    "intervals by {}. ≈: k is over half the samples, so the subsets overlap and the value is "
    "less certain."
)
ORACLE_SHARE = "oracle share: share of the best possible gain that the scorer's picks reach."
BOUND = "KL bound: the most that picking the best of k moves the policy, in nats."


def tables(result: BestOfResult) -> list[Table]:
    """Return a table per measure of quality: a row per scorer and context, a column per k."""
    summary = result.summary
    names = short_names([one.scorer for one in summary.cells])
    tables = []
    for quality in dict.fromkeys(one.quality for one in summary.cells):
        picked = [one for one in summary.cells if one.quality == quality]
        named = f"{quality} (a surrogate)" if picked[0].surrogate else quality
        title = (
            f"{summary.benchmark}: best of {summary.samples.n} by {summary.policy}, {named}, "
            f"{picked[0].curve.n_questions:,} of {len(result.rows):,} questions"
        )
        columns = [
            "scorer",
            "context",
            *(f"best of {k}" for k in summary.ks),
            "gain [95 %]",
            "p (Holm)",
            "oracle share [95 %]",
        ]
        place = _told(summary.ks, picked)
        rows = [
            [
                names[one.scorer],
                context_name(one.context, oracle=one.oracle),
                *(_level(p.best, reliable=p.reliable) for p in one.curve.points),
                _figure(one.curve.points[place], "gain"),
                p_value(one.p_holm[place]),
                _figure(one.curve.points[place], "oracle_share"),
            ]
            for one in picked
        ]
        points, rest = picked[0].curve.points, [NONE] * 3
        rows.append([ORACLE, NONE, *(_level(p.oracle, reliable=p.reliable) for p in points), *rest])
        rows.append(["KL bound", NONE, *(plain(p.kl_bound) for p in points), *rest])
        by = _clustering(result, picked[0])
        notes = [
            NOTE.format(by),
            f"gain and oracle share at k = {summary.ks[place]}. {ORACLE_SHARE} {BOUND}",
        ]
        if by == "user":
            notes += _least_p(result, picked, place)
        notes += without_interval(
            (
                f"{names[one.scorer]}, {context_name(one.context)}, {which}",
                getattr(one.curve.points[place], which).note,
            )
            for one in picked
            for which in ("best", "gain", "oracle_share")
        )
        notes += [*_peaks(picked, names), *_counts(result, picked, names), *legend(names, end="")]
        tables.append(Table(title, columns, rows, notes, 2, frozenset({len(picked) - 1})))
    return tables


def _told(ks: tuple[int, ...], picked: list[Selection]) -> int:
    """Return which k's gain is told: the largest without reserve, else the smallest above 1.

    At k = 1 nothing is picked, so it is told only where there is no other.
    """
    above = [at for at, k in enumerate(ks) if k > 1]
    there = [one.curve.points for one in picked if one.curve.n_questions]
    reliable = [at for at in above if all(points[at].reliable for points in there)]
    return reliable[-1] if reliable else (above or [0])[0]


def _clustering(result: BestOfResult, one: Selection) -> str:
    """Say over what the intervals of a measure are."""
    users, questions = result.users, result.questions
    if not one.contrast:
        shared = len(set(zip(users, questions, strict=True))) > len(set(questions))
        return "user and question, which users share" if shared else "user"
    couples = {
        (question, *sorted((user, users[mirror])))
        for question, user, mirror in zip(questions, users, result.mirrors or (), strict=True)
    }
    shared = len(couples) > len(set(questions))
    return f"user over couples{' and by question, which couples share' if shared else ''}"


def _least_p(found: BestOfResult, picked: list[Selection], place: int) -> list[str]:
    """Say which p so few users can reach, where that is none below 0.05."""
    users = max(one.curve.points[place].gain.n_units for one in picked)
    column = {id(one): k for k, one in enumerate(found.summary.cells)}
    tested = {
        (one.scorer, found.expected[:, column[id(one)]].tobytes())
        for one in picked
        if one.p_holm[place] is not None
    }
    if not users or not tested:
        return []
    least = smallest_sign_flip_p(users)
    among = min(1.0, least * len(tested))
    if among <= 0.05:
        return []
    by = f"; Holm over {len(tested)} scorers makes it {p_value(among)}" if len(tested) > 1 else ""
    return [
        f"with {users} users no p by sign flips can be under {p_value(least)}{by}: read the "
        "interval, or add users."
    ]


def _peaks(picked: list[Selection], names: Mapping[str, str]) -> list[str]:
    """Say where picking stops helping, of the scorers for which that is shown."""
    notes = []
    for one in picked:
        fit = one.over_optimisation
        if fit is None or fit.peak == "none":
            continue
        who = f"{names[one.scorer]} · {one.context}"
        if fit.peak == "start":
            where = "picking by it lowers quality from the first step"
        else:
            k = "e^600" if fit.peak_k is None else f"{fit.peak_k:,.3g}"
            far = "" if fit.peak == "within" else ", beyond the fitted sizes and so extrapolated"
            where = (
                f"quality peaks near k = {k} at {plain(fit.peak_gain, signed=True)} over one "
                f"sample{far}"
            )
        notes.append(f"over-optimisation: {who}: {where}.")
    return notes


def _counts(result: BestOfResult, picked: list[Selection], names: dict[str, str]) -> list[str]:
    counts, ks = result.summary.samples, result.summary.ks
    told = counted({"empty": counts.empty, "cut off": counts.cut_off, "repeated": counts.repeated})
    notes = [f"Of {counts.samples:,} samples {', '.join(told)}."] if told else []
    left_out = picked[0].curve.n_left_out
    if left_out:
        notes.append(
            f"{left_out:,} questions left out, with fewer than {max(ks)} samples that all of "
            "these scorers scored and the measure rated."
        )
    unrated = result.summary.unrated[picked[0].quality]
    if unrated:
        notes.append(
            f"{sum(unrated.values()):,} samples have no quality ({'; '.join(counted(unrated))})."
        )
    for one in picked:
        notes += unscored_notes(one.unscored_reasons, names[one.scorer], one.context)
        notes += [f"{names[one.scorer]}: {note}" for note in one.notes]
    return list(dict.fromkeys(notes))


def _level(found: Estimate, *, reliable: bool) -> str:
    return f"{'' if reliable else '≈'}{plain(found.value)}"


def _figure(point: BestOfPoint, which: Literal["gain", "oracle_share"]) -> str:
    found = getattr(point, which)
    text = figure(found, signed=which == "gain")
    return text if point.reliable or found.value is None else f"≈{text}"


def parts(result: BestOfResult, names: Names, number: int) -> Iterator[object]:
    """Yield a drawing a measure, each with its table."""
    summary = result.summary
    yield Text("The best of n answers, chosen by a scorer", "h3")
    qualities = dict.fromkeys(selection.quality for selection in summary.cells)
    of_measures = [names.table(table) for table in tables(result)]
    for k, (quality, table) in enumerate(zip(qualities, of_measures, strict=True)):
        picked = [each for each in summary.cells if each.quality == quality][:MOST_LINES]
        short = short_names([each.scorer for each in picked])
        several = len({each.context for each in picked}) > 1
        labels = [
            names.public(short[each.scorer])
            + (f", {names.context(each.context)}" if several else "")
            for each in picked
        ]
        yield picture(
            f"best-of-{number}-{k}",
            f"Quality of the best of n, {names.public(quality)}",
            "Quality of the answer that a scorer picks among so many; hollow where so many are "
            "over half of the samples. The dotted line is the best possible pick, the dashed line "
            "one sample. Short vertical lines are 95 % intervals.",
            table,
            partial(best_of_lines, names=labels, selections=picked, ks=summary.ks),
        )
