"""Policy accuracy as tables: scorers, curves over weights, and τ along them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from palate.downstream.policy import PolicyAccuracy, PolicyCell, ReadingCurve
from palate.downstream.policy.result import PolicySummary, Weight
from palate.metrics.policy import READINGS
from palate.metrics.ranks import rank_power
from palate.reports.names import context_name, fitting, legend, short_names
from palate.reports.numbers import (
    count,
    counted,
    figure,
    p_value,
    plain,
    point,
    with_interval,
    without_interval,
)
from palate.reports.table import Table, breaks_between

LONGEST = 16
"""Letters of a scorer's name in a column."""
READ = {
    "sum": "the log-probability of the response",
    "mean": "the log-probability per token",
    "ratio": "the log-probability less that at weight 0",
}
FEW = 10
"""Fewer scorers carry a warning."""


def policy_tables(result: PolicyAccuracy) -> list[Table]:
    """Return the table of scorers, one of curves, and one of τ where there are three scorers."""
    summary = result.summary
    names = fitting(short_names([cell.scorer for cell in summary.cells]), LONGEST)
    tables = [_scorers(summary, names), _curves(summary, names)]
    if summary.agreements:
        tables.append(_agreement(summary))
    return tables


def _scorers(summary: PolicySummary, names: Mapping[str, str]) -> Table:
    columns = ["scorer", "context", "reward" if summary.guided else "ratio", "policy", "steered",
               "gain [95 %]", "p", _unit(summary)]  # fmt: skip
    rows = []
    for cell in summary.cells:
        curve = cell.readings[0]
        rows.append([
            names[cell.scorer], context_name(cell.context, oracle=cell.oracle),
            point(cell.reward), point(curve.base), point(curve.accuracy),
            figure(curve.gain, signed=True), p_value(curve.gain_p_holm), _weights(curve.chosen),
        ])  # fmt: skip
    title = f"{summary.benchmark}: policy accuracy of {summary.policy} by {_score(summary)}"
    return Table(title, columns, rows, [*_notes(summary, names)], 2, _breaks(summary))


def _curves(summary: PolicySummary, names: Mapping[str, str]) -> Table:
    weights = (f"{_unit(summary)} = {_number(weight)}" for weight in summary.weights)
    columns = ["read as", "scorer", "context", *weights]
    rows = [
        [
            reading, names[cell.scorer], context_name(cell.context, oracle=cell.oracle),
            *(point(each.accuracy) for each in _curve(cell, reading).points),
        ]
        for reading in _readings(summary)
        for cell in summary.cells
    ]  # fmt: skip
    told = "; ".join(f"{reading}: {READ[reading]}" for reading in _readings(summary))
    notes = [
        f"read as {told}. inf: the limit of the order.",
        "The ratio at 0 is its limit." if summary.method is not None else
        "The ratio to the policy orders responses as the reward alone does, at every weight.",
    ]  # fmt: skip
    return Table("policy accuracy by weight", columns, rows, notes, 3,
                 breaks_between([row[0] for row in rows]))  # fmt: skip


def _agreement(summary: PolicySummary) -> Table:
    columns = ["read as", _unit(summary), "n", "τ [95 %]", "p", "chance, 95 % within"]
    rows = []
    for each in summary.agreements:
        tau = each.agreement
        if tau.value is None or each.reading not in _readings(summary):
            continue
        rows.append([
            each.reading, "chosen" if each.weight == "chosen" else _number(each.weight),
            count(tau.n), with_interval(tau.value, tau.interval.low, tau.interval.high),
            p_value(tau.chance.p),
            with_interval(tau.chance.mean, tau.chance.low, tau.chance.high),
        ])  # fmt: skip
    notes = [
        "τ: Kendall's τ-b of the accuracies of reward and steered policy over scorers under "
        f"contexts, {summary.n_common:,} rows that all of them scored [95 % interval over new "
        "scorers drawn like these]. p and chance are of random rankings."
    ]
    n = summary.agreements[0].agreement.n
    if n < FEW:
        critical = rank_power(n).critical_tau
        least = "no τ reaches p = 0.05" if critical is None else f"|τ| must reach {plain(critical)}"
        notes.append(
            f"WARNING: {n} scorers show little: {least}{' for p ≤ 0.05' * bool(critical)}."
        )
    return Table("does the better reward make the better policy?", columns, rows, notes, 2,
                 breaks_between([row[0] for row in rows]))  # fmt: skip


def _notes(summary: PolicySummary, names: Mapping[str, str]) -> Iterator[str]:
    first = summary.cells[0].readings[0]
    units = "couples" if _mirrored(summary) else "rows"
    yield (
        f"{summary.n_rows:,} rows; accuracy over {first.accuracy.n:,} {units}, ties half. reward: "
        "alone; policy: without it; steered: at the chosen weight, read as the sum; gain: steered "
        "less policy, paired; p by Holm over these rows, baselines and oracles apart."
    )
    if len(summary.weights) > 1:
        where = (
            "on rows of the split adapt" if summary.chosen_on == "adapt"
            else "on the other folds of whole questions"
        )  # fmt: skip
        yield f"{_unit(summary)}: with the largest accuracy {where}, of several the smallest."
    if summary.relative and summary.reserved is not None:
        yield from _units(summary, names)
    for cell in summary.cells:
        who = f"{names[cell.scorer]}, {context_name(cell.context)}"
        if cell.misses is not None and cell.misses.missed:
            share = cell.misses.missed / cell.misses.tokens
            yield (
                f"{who}: {cell.misses.missed:,} of {cell.misses.tokens:,} tokens ({share:.1%}) "
                "are outside the candidates and were added."
            )
        if cell.unscored_reasons:
            yield f"{who}: unscored: {'; '.join(counted(cell.unscored_reasons))}."
    yield from without_interval(
        (f"{names[cell.scorer]}, {context_name(cell.context)}", cell.readings[0].accuracy.note)
        for cell in summary.cells
    )
    yield from dict.fromkeys(note for cell in summary.cells for note in cell.notes)
    yield from legend(dict(names))


def _units(summary: PolicySummary, names: Mapping[str, str]) -> Iterator[str]:
    assert summary.reserved is not None
    whence = {
        "adapt": "pairs of the split adapt",
        "left out": "pairs that a limit or mirrors left out",
        "set aside": "pairs set aside, which are not evaluated",
    }[summary.reserved.source]
    told = "; ".join(
        f"{cell.unit:.4g} ({names[cell.scorer]}, {context_name(cell.context)})"
        for cell in summary.cells
    )
    yield (
        f"λ = 1 is the weight w at which the margins of policy and reward are equally large on "
        f"{summary.reserved.n:,} {whence}: {told}."
    )


def _score(summary: PolicySummary) -> str:
    if not summary.guided:
        against = f" against {summary.base}" if summary.base else ""
        return f"what it is shown{against}"
    shown = ", shown the same" if summary.policy_shown else ""
    if summary.method is None:
        return f"tilt{shown}"
    k = "" if summary.k is None else f", k = {summary.k}"
    return f"decoder {summary.method}{k}{shown}"


def _mirrored(summary: PolicySummary) -> bool:
    return any(2 * cell.reward.n == summary.n_rows for cell in summary.cells)


def _curve(cell: PolicyCell, reading: str) -> ReadingCurve:
    return next(each for each in cell.readings if each.reading == reading)


def _unit(summary: PolicySummary) -> str:
    return "λ" if summary.relative else "w"


def _readings(summary: PolicySummary) -> Sequence[str]:
    return [each for each in READINGS if each != "ratio" or summary.method is not None]


def _breaks(summary: PolicySummary) -> frozenset[int]:
    return breaks_between([cell.scorer for cell in summary.cells])


def _weights(chosen: Sequence[Weight]) -> str:
    return ", ".join(map(_number, chosen))


def _number(weight: Weight) -> str:
    return "inf" if weight == "inf" else f"{weight:g}"
