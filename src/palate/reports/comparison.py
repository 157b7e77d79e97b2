"""A comparison as tables: ranks with what the tests leave open, and the tests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from palate.comparison import Comparison
from palate.comparison.compare import ComparisonGroup, RankedRun
from palate.comparison.redraws import is_noise
from palate.reports.alarms import alarm_lines, alarms_of
from palate.reports.names import context_name, legend, short_names
from palate.reports.noise import precisions
from palate.reports.numbers import figure, p_value, without_interval
from palate.reports.table import Table
from palate.runs import Run


def tables(comparison: Comparison, *, details: bool = True) -> list[Table]:
    """Return, per benchmark and context, the ranking and the paired tests.

    Without `details` the tests are those of the best scorer alone.
    """
    groups = [group for group in comparison.groups if len(_runs(group)) > 1]
    short = short_names(run.summary.scorer for group in groups for run in _runs(group))
    ranked = [run for run in comparison.runs if run.summary.scorer in short]
    alarmed = {run.summary.scorer for run, _ in alarms_of(ranked)}
    marked = {spec: name + " ‡" * (spec in alarmed) for spec, name in short.items()}
    tables = []
    for group in groups:
        notes = [f"‡ {line}" for line in alarm_lines(ranked, short.__getitem__)]
        notes = [*notes, *_notes(groups, short)] if group is groups[-1] else []
        tables.append(_ranking(group, marked, notes))
        if group.tests:
            tables.append(_tests(group, short, details=details))
    return tables


def _runs(group: ComparisonGroup) -> list[Run]:
    return [run for ranked in group.ranking for run in (ranked.run, *ranked.equal)]


def _notes(groups: Sequence[ComparisonGroup], short: dict[str, str]) -> Iterator[str]:
    # Said once, below the last ranking.
    if any(group.tests for group in groups):
        yield "rank: what the corrected tests leave open at the 5 % level."
    if any(ranked.best is None for group in groups for ranked in group.ranking):
        yield "Baselines have no rank and no test."
    summaries = [run.summary for group in groups for run in _runs(group)]
    yield from precisions(summaries, short)
    yield from legend(short)


def _ranking(group: ComparisonGroup, short: dict[str, str], notes: Iterable[str]) -> Table:
    rows = [
        [
            ", ".join(short[run.summary.scorer] for run in (ranked.run, *ranked.equal)),
            figure(ranked.run.summary.accuracy),
            ranks(ranked) if ranked.best is None or group.tests else "–",
        ]
        for ranked in group.ranking
    ]
    title = (
        f"{group.name}, {context_name(group.context)}: "
        f"{len(_runs(group))} scorers, {group.n_common:,} common rows"
    )
    columns = ["scorer", "accuracy [95 %]", "rank"]
    return Table(title, columns, rows, [*notes], 1)


def ranks(ranked: RankedRun) -> str:
    """Return the ranks that are left to a scorer."""
    if ranked.best is None:
        return "baseline"
    return str(ranked.best) if ranked.best == ranked.worst else f"{ranked.best} to {ranked.worst}"


def _tests(group: ComparisonGroup, short: dict[str, str], *, details: bool) -> Table:
    tests = group.tests
    best = next(r.run.summary.scorer for r in group.ranking if r.best is not None)
    if not details:
        tests = tuple(test for test in tests if best in (test.a.scorer, test.b.scorer))
    rows = [
        [
            short[test.a.scorer],
            short[test.b.scorer],
            figure(test, signed=True),
            f"{test.n:,}",
            p_value(test.p),
            p_value(test.p_holm),
        ]
        for test in tests
    ]
    mirrored = group.ranking[0].run.summary.mirrored_accuracy is not None
    columns = ["a", "b", "a − b [95 %]", "couples" if mirrored else "pairs", "p", "p (Holm)"]
    notes = [f"Test: {method}." for method in dict.fromkeys(t.method for t in tests)]
    noisy = [f"{short[t.a.scorer]} − {short[t.b.scorer]}" for t in tests if is_noise(t)]
    if noisy:
        notes.append(f"Noise could turn {', '.join(noisy)}, so the ranks leave that order open.")
    if len(tests) < len(group.tests):
        notes.append(f"{len(group.tests) - len(tests):,} tests of other scorers: --details.")
    notes += without_interval((f"{short[t.a.scorer]} − {short[t.b.scorer]}", t.note) for t in tests)
    title = f"{group.name}, {context_name(group.context)}: paired differences in accuracy"
    return Table(title, columns, rows, notes, 2)
