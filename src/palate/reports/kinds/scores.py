"""The scores behind best of n and guided decoding, as a table."""

from __future__ import annotations

from collections.abc import Mapping

from palate.answers.scores import SampleScores
from palate.reports.names import context_name
from palate.reports.numbers import counted
from palate.reports.table import Table


def tables(found: SampleScores) -> list[Table]:
    """Return the table of one scorer's scores: how many samples have one."""
    told = found.summary
    samples, unscored = told.n_rows * told.n_samples, sum(told.unscored_reasons.values())
    row = [
        told.scorer,
        context_name(told.context, oracle=told.oracle),
        f"{told.n_rows:,}",
        f"{samples:,}",
        f"{unscored:,}",
    ]
    columns = ["scorer", "context", "rows", "samples", "unscored"]
    notes = [*unscored_notes(told.unscored_reasons, told.scorer, told.context), *told.notes]
    title = f"{told.benchmark}: scores of samples by {told.policy}"
    return [Table(title, columns, [row], notes, 2)]


def unscored_notes(reasons: Mapping[str, int], scorer: str, context: str) -> list[str]:
    """Say which samples a scorer left without a score, where there are any."""
    listed = "; ".join(counted(reasons))
    return [f"{scorer} · {context}: unscored samples: {listed}."] if reasons else []
