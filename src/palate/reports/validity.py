"""Validity as tables, as a picture, and on a page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from palate.metrics import Reliability
from palate.records.arguments import grouped
from palate.reports.names import Names
from palate.reports.numbers import NONE, p_value, plain, rank_correlation, with_interval
from palate.reports.parts import BLUE, MARKERS, MOST_LINES, Text, label, picture
from palate.reports.plots import line_style
from palate.reports.table import Table
from palate.validity import Coefficients, Difference, ForecastScore, Validity, ValiditySummary

FEW = 10
"""Fewer scorers carry a warning."""
NOTE = (
    "τ: Kendall's τ-b [95 % interval over new scorers drawn like these]. p is raw / Holm-corrected "
    "over this table; it compares with random rankings of these scorers, all n! up to 8. "
    "reliability: share of the variance between scorers that is no noise of users and questions "
    "[95 %], for the metric and for {what}. noise ceiling: √ of their product, the largest τ to "
    "expect."
)
FORECAST_NOTE = (
    "Of the oracle share. of saying 0: the mean error of that. p: the exchange test of both τ. "
    "Left out: the blind, 0 by design; the late, not shown to be written before a rating."
)
COMPARED_NOTE = (
    "p is raw / Holm-corrected over this table. The test exchanges a scorer's ranks between the "
    "two metrics, all 2ⁿ ways up to 12 scorers. These comparisons were fixed beforehand."
)


def tables(found: Validity) -> list[Table]:
    """Return a table per measure of quality, and one of the metrics that are compared."""
    tables, summary = [], found.summary
    for what, some in grouped(summary.coefficients, _what).items():
        of = some[0].downstream
        notes = [
            NOTE.format(what=of.rated),
            *_warnings(some),
            *_passed_over(some),
            *(f"{few}: too few." for few in summary.too_few),
            *_left_out(summary),
            *_noisy(summary),
        ]
        columns: dict[str, Callable[[Coefficients], str]] = {
            "benchmark": lambda one: one.benchmark,
            "metric": lambda one: one.metric,
            "n": lambda one: str(one.agreements[0].n),
            "τ [95 %]": lambda one: rank_correlation(one.agreements[0]),
            "p / Holm": lambda one: (
                f"{p_value(one.agreements[0].chance.p)} / {p_value(one.p_holm[0])}"
            ),
            "reliability": lambda one: _reliability(one.reliability),
            f"of {of.rated}": lambda one: _reliability(one.downstream_reliability),
            "noise ceiling": lambda one: plain(one.noise_ceiling),
        }
        tables.append(Table.of(f"predicting {what}", some, columns, notes, 2))
        if differences := [one for one in summary.differences if one.downstream == of]:
            tables.append(difference_table(what, differences))
    return [*tables, forecast_table(summary.forecasts)] if summary.forecasts else tables


def forecast_table(scores: Sequence[ForecastScore]) -> Table:
    """Return the table of what forecasts were worth, a row for each measure."""
    columns: dict[str, Callable[[ForecastScore], str]] = {
        "predicting": _what,
        "n": lambda one: str(len(one.scorers)),
        "mean error": lambda one: plain(one.mean_error),
        "of saying 0": lambda one: plain(one.error_of_zero),
        "cover of 90 %": lambda one: plain(one.cover),
        "τ of forecasts": lambda one: plain(one.tau.first if one.tau else None),
        "of accuracy": lambda one: plain(one.tau.second if one.tau else None),
        "p": lambda one: p_value(one.tau.p if one.tau else None),
        "blind / late": lambda one: f"{one.blind:,} / {one.late:,}",
    }
    return Table.of("forecasts and what came", scores, columns, [FORECAST_NOTE])


def _passed_over(some: Sequence[Coefficients]) -> Iterator[str]:
    for one in (one for one in some if one.n < one.n_largest):
        yield (
            f"{one.metric} on {one.benchmark} uses the {one.n:,} of {one.n_largest:,} that "
            f"all scorers scored ({' under '.join(one.smallest)} has the fewest)."
        )
    for blind, figures in grouped(some, lambda one: one.constant).items():
        if blind:
            named = ", ".join(f"{one.metric} of {one.benchmark}" for one in figures)
            why = "scorers are excluded; on couples both values are ½ by construction."
            yield f"{named}: {len(blind)} blind {why}"


def _left_out(summary: ValiditySummary) -> Iterator[str]:
    if some := summary.benchmark_only:
        yield f"Excluded (no downstream result): {', '.join(map(' under '.join, some))}."
    if some := summary.downstream_only:
        yield f"Excluded (no benchmark run): {', '.join(map(' under '.join, some))}."
    if alike := ", ".join(summary.context_independent):
        yield f"Counted once, since the context does not change their scores: {alike}."


def _noisy(summary: ValiditySummary) -> Iterator[str]:
    by_kind = grouped((run.noise for run in summary.noisy), lambda noise: noise.dtype or noise.kind)
    for kind, noises in by_kind.items():
        turned = [noise.expected_flips for noise in noises if noise.expected_flips is not None]
        n, unknown = len(noises), len(noises) - len(turned)
        runs, of = ("1 run holds", "it") if n == 1 else (f"{n:,} runs hold", "one")
        parts = [f"at most {max(turned):.1f} verdicts of {of} are expected to turn"] * bool(turned)
        parts += [f"that of {'it' if n == 1 else f'{unknown:,}'} was not measured"] * bool(unknown)
        yield f"{runs} noise of {kind}: {'; '.join(parts)}."


def _what(one: Coefficients | ForecastScore) -> str:
    of = one.downstream
    named = f"{of.quality} (a surrogate)" if of.surrogate else of.quality
    by = f"{of.policy} on {of.benchmark}" if of.policy else of.benchmark
    if of.n_samples is None:
        return f"{named}{f' {of.answers}' if of.answers else ''} of {by}"
    how = f"of {of.n_samples} by" if of.k else f"· {of.n_samples} answers by"
    return f"{of.answers} {how} {by}, {named}"


def _reliability(of: Reliability | None) -> str:
    return NONE if of is None else with_interval(of.value, of.low, of.high)


def _warnings(some: Sequence[Coefficients]) -> Iterator[str]:
    for power in {one.power.n: one.power for one in some if one.power.n < FEW}.values():
        told = "no ranking reaches p = 0.05"
        if power.critical_tau is not None:
            told = f"|τ| must reach {plain(power.critical_tau)} for p ≤ 0.05"
        if (least := power.minimum_detectable_tau) is not None:
            told += f"; the minimum detectable τ is {plain(least)} (80 % power)"
        yield f"WARNING: {power.n} scorers show little: {told}."


def difference_table(what: str, differences: Sequence[Difference]) -> Table:
    """Return the table of differences between benchmarks, or between metrics."""
    columns: dict[str, Callable[[Difference], str]] = {
        "first": lambda one: " on ".join(reversed(one.first)),
        "second": lambda one: " on ".join(reversed(one.second)),
        "n": lambda one: str(one.n),
        "τ of the first": lambda one: plain(one.tau.first),
        "of the second": lambda one: plain(one.tau.second),
        "difference": lambda one: plain(one.tau.value, signed=True),
        "p / Holm": lambda one: f"{p_value(one.tau.p)} / {p_value(one.p_holm)}",
    }
    title = f"which metric predicts {what} better (Kendall τ-b)"
    return Table.of(title, differences, columns, [COMPARED_NOTE], 2)


def parts(result: Validity, names: Names, number: int) -> Iterator[object]:
    """Yield a drawing a coefficient, and the tables."""
    yield Text("Does the benchmark predict it?", "h3")
    printed = [names.table(table) for table in tables(result)]
    some = result.summary.coefficients[:MOST_LINES]
    policies = {(each.downstream.policy, each.downstream.benchmark) for each in some}
    for k, coefficient in enumerate(some):
        of = coefficient.downstream
        quality = names.public(of.quality).partition(":")[0]
        whose = f" by {of.policy} on {of.benchmark}" if len(policies) > 1 else ""
        labels = names.labels(coefficient.scorers)
        yield picture(
            f"validity-{number}-{k}",
            f"{coefficient.metric} on {coefficient.benchmark} and "
            f"{names.public(f'{of.answers or of.rated}{whose}')}",
            "A dot is a scorer: its value on the benchmark, and the quality of what users get.",
            printed[0],
            partial(validity_dots, names=labels, coefficients=coefficient, quality=quality),
        )
    yield from printed


def validity_dots(ax: Any, names: Sequence[str], coefficients: Coefficients, quality: str) -> None:
    """Draw downstream quality against the benchmark's value, with names beside many dots."""
    annotated = len(names) > len(MARKERS)
    for k, (name, each) in enumerate(zip(names, coefficients.scorers, strict=True)):
        place = each.metric_value, each.downstream_value
        short = label(name, 26)
        style = {**line_style(k), "ms": 8, "label": short}
        if annotated:
            style = {"marker": "o", "ms": 5, "color": BLUE}
            ax.annotate(short, place, fontsize=6, xytext=(3, 3), textcoords="offset points")
        ax.plot(*place, **{**style, "ls": ""})
    of, tau = coefficients.downstream, coefficients.agreements[0]
    measure = label(f"{coefficients.metric} on {coefficients.benchmark}", 60)
    ax.set_xlabel(f"{measure}\nτ = {rank_correlation(tau)}, n = {tau.n}")
    ax.set_ylabel(label(f"{of.answers}, {quality}" if of.answers else quality, 32))
    ax.grid()
