"""Validity as tables, as a picture, and on a page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from palate.metrics.ranks import Reliability
from palate.reports.names import short_names
from palate.reports.numbers import NONE, p_value, plain, with_interval
from palate.reports.page.figures.curves import validity_dots
from palate.reports.page.figures.drawing import picture
from palate.reports.page.names import Names
from palate.reports.page.parts import MOST_LINES, Text
from palate.reports.table import Table
from palate.uses import CellKey
from palate.validity import Coefficients, Difference, Validity, ValiditySummary

FEW = 10
"""Fewer scorers carry a warning."""
NOTE = (
    "τ: Kendall's τ-b [95 % interval over new scorers drawn like these]. p is raw / Holm-corrected "
    "over this table; it compares with random rankings of these scorers, all n! up to 8. "
    "reliability: share of the variance between scorers that is no noise of users and questions "
    "[95 %], for the metric and for {what}. noise ceiling: √ of their product, the largest τ to "
    "expect."
)
COMPARED_NOTE = (
    "p is raw / Holm-corrected over this table. The test exchanges a scorer's ranks between the "
    "two metrics, all 2ⁿ ways up to 12 scorers. These comparisons were fixed beforehand."
)


def tables(found: Validity) -> list[Table]:
    """Return a table per measure of quality, and one of the metrics that are compared."""
    tables, summary = [], found.summary
    for what in dict.fromkeys(_what(one) for one in summary.coefficients):
        some = [one for one in summary.coefficients if _what(one) == what]
        rated = some[0].downstream.rated
        notes = [
            NOTE.format(what=rated),
            *_warnings(some),
            *_common_rows(some),
            *_constant(some),
            *(f"{few}: too few." for few in summary.too_few),
            *_left_out(summary),
            *_noisy(summary),
        ]
        columns = [
            "benchmark",
            "metric",
            "n",
            "τ [95 %]",
            "p / Holm",
            "reliability",
            f"of {rated}",
            "noise ceiling",
        ]
        tables.append(Table(f"predicting {what}", columns, [_row(one) for one in some], notes, 2))
        of = some[0].downstream
        differences = [one for one in summary.differences if one.downstream == of]
        if differences:
            tables.append(difference_table(what, differences))
    return tables


def _common_rows(some: Sequence[Coefficients]) -> list[str]:
    notes = []
    for one in some:
        if one.n < one.n_largest:
            scorer, context = one.smallest
            notes.append(
                f"{one.metric} on {one.benchmark} uses the {one.n:,} of {one.n_largest:,} that "
                f"all scorers scored ({scorer} under {context} has the fewest)."
            )
    return notes


def _constant(some: Sequence[Coefficients]) -> list[str]:
    by: dict[tuple[CellKey, ...], list[str]] = {}
    for one in some:
        if one.constant:
            by.setdefault(one.constant, []).append(f"{one.metric} of {one.benchmark}")
    return [
        f"{', '.join(figures)}: {len(blind)} blind scorers are excluded; "
        "on couples both values are ½ by construction."
        for blind, figures in by.items()
    ]


def _left_out(summary: ValiditySummary) -> list[str]:
    lacking = [
        (summary.benchmark_only, "no downstream result"),
        (summary.downstream_only, "no benchmark run"),
    ]
    notes = [
        f"Excluded ({lack}): {', '.join(f'{a} under {b}' for a, b in some)}."
        for some, lack in lacking
        if some
    ]
    if summary.context_independent:
        alike = ", ".join(summary.context_independent)
        notes.append(f"Counted once, since the context does not change their scores: {alike}.")
    return notes


def _noisy(summary: ValiditySummary) -> list[str]:
    flips: dict[str, list[float]] = {}
    for run in summary.noisy:
        noise = run.noise
        flips.setdefault(noise.dtype or noise.kind, []).append(noise.expected_flips or 0.0)
    return [
        f"{_runs_with(len(each))} noise of {kind}: at most {max(each):.1f} verdicts of "
        f"{'it' if len(each) == 1 else 'one'} are expected to turn."
        for kind, each in flips.items()
    ]


def _runs_with(n: int) -> str:
    return "1 run holds" if n == 1 else f"{n:,} runs hold"


def _what(one: Coefficients) -> str:
    of = one.downstream
    named = f"{of.quality} (a surrogate)" if of.surrogate else of.quality
    by = f"{of.policy} on {of.benchmark}" if of.policy else of.benchmark
    if of.n_samples is None:
        return f"{named}{f' {of.answers}' if of.answers else ''} of {by}"
    how = f"of {of.n_samples} by" if of.k else f"· {of.n_samples} answers by"
    return f"{of.answers} {how} {by}, {named}"


def _row(row: Coefficients) -> list[str]:
    tau = row.agreements[0]
    return [
        row.benchmark,
        row.metric,
        str(tau.n),
        with_interval(tau.value, tau.interval.low, tau.interval.high),
        f"{p_value(tau.chance.p)} / {p_value(row.p_holm[0])}",
        _reliability(row.reliability),
        _reliability(row.downstream_reliability),
        plain(row.noise_ceiling),
    ]


def _reliability(of: Reliability | None) -> str:
    return NONE if of is None else with_interval(of.value, of.low, of.high)


def _warnings(some: Sequence[Coefficients]) -> list[str]:
    notes = []
    for power in {one.power.n: one.power for one in some if one.power.n < FEW}.values():
        critical = (
            "no ranking reaches p = 0.05"
            if power.critical_tau is None
            else f"|τ| must reach {plain(power.critical_tau)} for p ≤ 0.05"
        )
        least = power.minimum_detectable_tau
        detectable = (
            "" if least is None else f"; the minimum detectable τ is {plain(least)} (80 % power)"
        )
        notes.append(f"WARNING: {power.n} scorers show little: {critical}{detectable}.")
    return notes


def difference_table(what: str, differences: Sequence[Difference]) -> Table:
    """Return the table of differences between benchmarks, or between metrics."""
    rows = []
    for difference in differences:
        tau = difference.tau
        rows.append(
            [
                _named(difference.first),
                _named(difference.second),
                str(difference.n),
                plain(tau.first),
                plain(tau.second),
                plain(tau.value, signed=True),
                f"{p_value(tau.p)} / {p_value(difference.p_holm)}",
            ]
        )
    columns = ["first", "second", "n", "τ of the first", "of the second", "difference", "p / Holm"]
    title = f"which metric predicts {what} better (Kendall τ-b)"
    return Table(title, columns, rows, [COMPARED_NOTE], 2)


def _named(side: tuple[str, str]) -> str:
    return f"{side[1]} on {side[0]}"


def parts(result: Validity, names: Names, number: int) -> Iterator[object]:
    """Yield a drawing a coefficient, and the tables."""
    yield Text("Does the benchmark predict it?", "h3")
    printed = [names.table(table) for table in tables(result)]
    some = result.summary.coefficients[:MOST_LINES]
    policies = {(each.downstream.policy, each.downstream.benchmark) for each in some}
    for k, coefficient in enumerate(some):
        short = short_names([each.scorer for each in coefficient.scorers])
        several = len({each.context for each in coefficient.scorers}) > 1
        labels = [
            names.public(short[each.scorer]) + f", {names.context(each.context)}" * several
            for each in coefficient.scorers
        ]
        of = coefficient.downstream
        quality = names.public(of.quality).partition(":")[0]
        whose = f" by {of.policy} on {of.benchmark}" if len(policies) > 1 else ""
        yield picture(
            f"validity-{number}-{k}",
            f"{coefficient.metric} on {coefficient.benchmark} and "
            f"{names.public(f'{of.answers or of.rated}{whose}')}",
            "A dot is a scorer: its value on the benchmark, and the quality of what users get.",
            printed[0],
            partial(validity_dots, names=labels, coefficients=coefficient, quality=quality),
        )
    yield from printed
