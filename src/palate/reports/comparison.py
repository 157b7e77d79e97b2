"""A comparison as tables: ranks with what the tests leave open, and the tests."""

from __future__ import annotations

from palate.comparison import Comparison
from palate.reports.names import context_name, legend, short_names
from palate.reports.numbers import figure, p_value, with_interval, without_interval
from palate.reports.table import Table


def comparison_tables(found: Comparison) -> list[Table]:
    """Return, per benchmark, the ranking and the paired tests."""
    tables = []
    for group in found.groups:
        benchmark, ranked, tests = group.name, group.ranking, group.tests
        short = short_names(one.run.summary.scorer for one in ranked)
        rows = [
            [
                short[one.run.summary.scorer],
                context_name(one.run.summary.context),
                figure(one.run.summary.accuracy),
                str(one.best) if one.best == one.worst else f"{one.best} to {one.worst}",
            ]
            for one in ranked
        ]
        notes = ["rank: what the corrected tests leave open at the 5 % level.", *legend(short)]
        columns = ["scorer", "context", "accuracy [95 %]", "rank"]
        title = f"{benchmark}: {len(ranked)} runs, {group.n_common:,} common rows"
        tables.append(Table(title, columns, rows, notes, 2))
        paired = [
            [
                f"{short[t.a.scorer]} ({context_name(t.a.context)})",
                f"{short[t.b.scorer]} ({context_name(t.b.context)})",
                with_interval(t.value, t.low, t.high, signed=True),
                f"{t.n:,}",
                p_value(t.p),
                p_value(t.p_holm),
            ]
            for t in tests
        ]
        unit = "couples" if ranked[0].run.summary.mirrored_accuracy is not None else "pairs"
        columns = ["a", "b", "a − b [95 %]", unit, "p", "p (Holm)"]
        notes = [f"Test: {method}." for method in dict.fromkeys(t.method for t in tests)]
        notes += without_interval(
            (f"{short[t.a.scorer]} − {short[t.b.scorer]}", t.note) for t in tests
        )
        tables.append(
            Table(f"{benchmark}: paired differences in accuracy", columns, paired, notes, 2)
        )
    return tables
