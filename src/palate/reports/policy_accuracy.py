"""Policy accuracy as tables and on a page: scorers, curves over weights, and τ along them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from palate.metrics import rank_power
from palate.metrics.policy import READINGS
from palate.metrics.ranks import LEAST_SCORERS
from palate.reports.names import Names, ShortNames, fitting, legend, short_names
from palate.reports.numbers import (
    Number,
    count,
    counted,
    figure,
    p_value,
    plain,
    point,
    rank_correlation,
    with_interval,
    without_interval,
)
from palate.reports.parts import MOST_LINES, Text, picture
from palate.reports.plots import LEVEL_LINE, draw_line
from palate.reports.table import WIDTH, Table, breaks_between
from palate.runs import ReportedEstimate
from palate.scorers import is_baseline
from palate.uses.policy_curves import (
    PolicyAccuracy,
    PolicyAgreement,
    PolicyCell,
    PolicySummary,
    Weight,
)
from palate.uses.steering import LEAST, SHARE

LONGEST = 16
"""Letters of a scorer's name in a column."""
READ = {
    "sum": "the log-probability of the response",
    "mean": "the log-probability per token",
    "ratio": "the log-probability less that at weight 0",
}
FEW = 10
"""Fewer scorers carry a warning."""
WHENCE = {
    "adapt": "pairs of the split adapt",
    "left out": "pairs that a limit, days or mirrors left out",
    "set aside": "pairs set aside, which are not evaluated",
}
ALL_EQUAL = "all rewards, or all policies, are equally accurate, so nothing is ranked"


def tables(result: PolicyAccuracy) -> list[Table]:
    """Return the table of scorers, one of curves, and with guides one of τ over scorers."""
    summary = result.summary
    names = fitting(short_names(cell.scorer for cell in summary.cells), LONGEST)
    agreement = [_agreement(summary)] if summary.guided else []
    return [_scorers(summary, names), _curves(summary, names), *agreement]


def _scorers(summary: PolicySummary, names: ShortNames) -> Table:
    columns: dict[str, Callable[[PolicyCell], str]] = {
        **names.columns,
        "reward" if summary.guided else "ratio": lambda cell: point(cell.reward),
        "policy": lambda cell: point(cell.readings[0].base),
        "steered": lambda cell: point(cell.readings[0].accuracy),
        "gain [95 %]": lambda cell: figure(cell.readings[0].gain, signed=True),
        "p": lambda cell: p_value(cell.readings[0].gain_p_holm),
    }
    if summary.relative:
        columns["w(λ = 1)"] = lambda cell: Number(f"{cell.unit:.4g}", cell.unit)
    columns[_unit(summary)] = lambda cell: ", ".join(map(_number, cell.readings[0].chosen))
    title = f"{summary.benchmark}: policy accuracy of {summary.policy} by {_score(summary)}"
    notes = _notes(summary, names)
    return Table.of(title, summary.cells, columns, notes, 2, parted=1, width=WIDTH)


def _curves(summary: PolicySummary, names: ShortNames) -> Table:
    weights = (f"{_unit(summary)} = {_number(weight)}" for weight in summary.weights)
    readings = _readings(summary)
    rows = [
        [reading, *names.cells(cell), *(point(each.accuracy) for each in curve.points)]
        for reading in readings
        for cell in summary.cells
        for curve in cell.readings
        if curve.reading == reading
    ]
    limit = " inf: the limit of the order." if "inf" in summary.weights else ""
    notes = [f"read as {'; '.join(f'{each}: {READ[each]}' for each in readings)}.{limit}"]
    if summary.method is None:
        notes.append("The ratio to the policy orders as the reward alone, at every weight.")
    elif 0 in summary.weights:
        notes.append("The ratio at 0 is its limit.")
    columns = ["read as", *names.columns, *weights]
    breaks = breaks_between(row[0] for row in rows)
    return Table("policy accuracy by weight", columns, rows, notes, 3, breaks, width=WIDTH)


def _agreement(summary: PolicySummary) -> Table:
    # There the steered accuracy is the reward's by definition, but for its ties.
    of_reward = summary.method is None and "inf" in summary.weights
    listed = [
        each
        for each in summary.agreements
        if each.reading in _readings(summary)
        and not (of_reward and (each.reading, each.weight) == ("sum", "inf"))
        and (each.weight != "chosen" or len(summary.weights) > 1)
    ]
    if not any(each.agreement.value is not None for each in listed):
        why = [_why_none(summary)]
        return Table("τ of reward and policy accuracy", notes=why, width=WIDTH)
    columns: dict[str, Callable[[PolicyAgreement], str]] = {
        "read as": lambda each: each.reading,
        _unit(summary): lambda each: (
            each.weight if each.weight == "chosen" else _number(each.weight)
        ),
        "n": lambda each: count(each.agreement.n),
        "τ [95 %]": lambda each: rank_correlation(each.agreement),
        "p": lambda each: p_value(each.agreement.chance.p),
        "chance, 95 % within": lambda each: with_interval(
            each.agreement.chance.mean, each.agreement.chance.low, each.agreement.chance.high
        ),
    }
    notes = [
        "τ: Kendall's τ-b of the accuracies of reward and steered policy over scorers under "
        f"contexts, {summary.n_common:,} rows that all of them scored [95 % interval over new "
        "scorers drawn like these]. p and chance are of random rankings."
    ]
    if of_reward:
        notes.append("The sum at inf is left out: it is the reward, whose ties fall to the policy.")
    if any(each.agreement.value is None for each in listed):
        notes.append(f"–: {ALL_EQUAL}.")
    n = listed[0].agreement.n
    if n < FEW:
        critical = rank_power(n).critical_tau
        least = (
            "no τ reaches p = 0.05"
            if critical is None
            else f"|τ| must reach {plain(critical)} for p ≤ 0.05 where no two tie"
        )
        notes.append(f"WARNING: {n} scorers show little: {least}.")
    title = "does the better reward make the better policy?"
    return Table.of(title, listed, columns, notes, 2, parted=1, width=WIDTH)


def _why_none(summary: PolicySummary) -> str:
    if summary.agreements:
        return f"none, since {ALL_EQUAL}."
    if not summary.n_common and sum(not c.oracle for c in summary.cells) >= LEAST_SCORERS:
        return "none, since no row is scored by every scorer under every context."
    return (
        f"none, since it needs {LEAST_SCORERS} scorers under contexts; oracles do not count, "
        "and a scorer that no context moves counts once."
    )


def _notes(summary: PolicySummary, names: ShortNames) -> Iterator[str]:
    curves = [cell.readings[0] for cell in summary.cells]
    in_couples = any(2 * cell.reward.n == summary.n_rows for cell in summary.cells)
    units = "couples" if in_couples else "rows"
    yield (
        f"{summary.n_rows:,} rows; accuracy over {curves[0].accuracy.n:,} {units}, ties half. "
        "reward: alone; policy: without it; steered: at the chosen weight, read as the sum; gain: "
        f"steered less policy, paired{_holm(summary)}."
    )
    unit = _unit(summary)
    if summary.relative and summary.reserved is not None:
        yield (
            "w(λ = 1): the weight at which the margins of policy and reward are equally large on "
            f"{summary.reserved.n:,} {WHENCE[summary.reserved.source]}."
        )
        if summary.reserved.n < LEAST:
            yield (
                f"WARNING: {summary.reserved.n} pairs set the unit of λ, too few to measure it; "
                f"give {SHARE * LEAST} rows or more, or read absolute weights (without --relative)."
            )
    if len(summary.weights) > 1:
        where = (
            "on rows of the split adapt"
            if summary.chosen_on == "adapt"
            else "on the other folds of whole questions"
        )
        several = ", a weight for each fold" * any(len(curve.chosen) > 1 for curve in curves)
        yield f"{unit}: with the largest accuracy {where}{several}; of equals the smallest."
    for cell in summary.cells:
        who = names.place(cell)
        if cell.misses is not None and cell.misses.missed:
            share = cell.misses.missed / cell.misses.tokens
            yield (
                f"{who}: {cell.misses.missed:,} of {cell.misses.tokens:,} tokens ({share:.1%}) "
                "are outside the candidates and were added."
            )
        if cell.unscored_reasons:
            yield f"{who}: unscored: {'; '.join(counted(cell.unscored_reasons))}."
    yield from without_interval(
        (names.place(cell), cell.readings[0].accuracy.note) for cell in summary.cells
    )
    yield from dict.fromkeys(note for cell in summary.cells for note in cell.notes)
    yield from legend(names)


def _holm(summary: PolicySummary) -> str:
    if all(cell.readings[0].gain_p_holm is None for cell in summary.cells):
        return ""
    kinds = {
        "baselines": any(is_baseline(cell.scorer) for cell in summary.cells),
        "oracles": any(cell.oracle for cell in summary.cells),
    }
    apart = " and ".join(kind for kind, there in kinds.items() if there)
    return f"; p by Holm over these rows{f', {apart} apart' * bool(apart)}"


def _score(summary: PolicySummary) -> str:
    if not summary.guided:
        against = f" against {summary.base}" if summary.base else ""
        return f"what it is shown{against}"
    shown = ", shown the same" if summary.policy_shown else ""
    if summary.method is None:
        return f"tilt{shown}"
    k = "" if summary.k is None else f", k = {summary.k}"
    return f"decoder {summary.method}{k}{shown}"


def _unit(summary: PolicySummary) -> str:
    return "λ" if summary.relative else "w"


def _readings(summary: PolicySummary) -> Sequence[str]:
    return [each for each in READINGS if each != "ratio" or summary.method is not None]


def _number(weight: Weight) -> str:
    return "inf" if weight == "inf" else f"{weight:g}"


def parts(result: PolicyAccuracy, names: Names, number: int) -> Iterator[object]:
    """Yield a drawing of the curves over weights, and the tables."""
    summary = result.summary
    yield Text("Does a policy that is steered prefer what its user chose?", "h3")
    first, curves, *rest = (names.table(table) for table in tables(result))
    yield first
    if len(summary.weights) > 1:
        short = short_names(cell.scorer for cell in summary.cells)
        lines = {
            f"{names.public(short[cell.scorer])}, {names.context(cell.context)}": [
                each.accuracy for each in cell.readings[0].points
            ]
            for cell in summary.cells[:MOST_LINES]
        }
        yield picture(
            f"policy-accuracy-{number}",
            "Policy accuracy by weight",
            "A line is a scorer under a context, read as the sum; the dashed line is the policy "
            "without it. Short vertical lines are 95 % intervals.",
            curves,
            partial(weight_lines, lines=lines, summary=summary),
        )
    else:
        yield curves
    yield from rest


def weight_lines(
    ax: Any, lines: Mapping[str, Sequence[ReportedEstimate]], summary: PolicySummary
) -> None:
    """Draw policy accuracy against the weight of the reward, a line per scorer and context."""
    for k, (name, points) in enumerate(lines.items()):
        draw_line(
            ax, k, name, [(at, point) for at, point in enumerate(points) if point.value is not None]
        )
    base = summary.cells[0].readings[0].base
    if base.value is not None:
        ax.axhline(base.value, label="the policy alone", **LEVEL_LINE)
    ax.set_xticks(range(len(summary.weights)), map(_number, summary.weights))
    ax.set(xlabel=f"weight of the reward, {_unit(summary)}", ylabel="policy accuracy")
    ax.grid(axis="y")
