"""Raters asked again: how often they choose alike, and whether their taste drifts.

With p a pair's chance of its likelier answer, repeats agree in a share a = E[p² + (1 − p)²], and
the best scorer is right in a share E p, which is at least a and at most (1 + √(2a − 1))/2.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import timedelta
from typing import Literal

from palate.metrics import Clusters, clustered_mean, group_gap
from palate.records import Record, read_date
from palate.runs import ReportedEstimate
from palate.study.records import AnswerRow


class RetestReport(Record):
    """What repeats tell of raters; intervals by the jackknife over raters and pairs."""

    agreement: ReportedEstimate
    """Share of repeats with the same choice, a."""
    n_undecided: int
    """Repeats left out since one of the answers names no side."""
    ceiling: tuple[float, float] | None
    """Bounds of the best scorer's accuracy; an a below ½ is luck and counts as ½."""
    days: float
    n_late: int
    """Repeats more than so many days later."""
    drift: ReportedEstimate
    """Share of changed choices among late repeats, less that among the others."""
    p: float | None
    """Of the drift."""
    drifted: Literal["found", "not shown"]


def retest_report(answers: Sequence[AnswerRow], *, days: float = 14) -> RetestReport | None:
    """Compare each repeat with its rater's answer to the pair before; None without repeats."""
    first = {(row.rater, row.item): row for row in answers if not row.again}
    again = [row for row in answers if row.again and (row.rater, row.item) in first]
    repeats = [(first[row.rater, row.item], row) for row in again]
    if not repeats:
        return None
    # Scorers are measured on decided choices, so theirs is the ceiling.
    decided = [both for both in repeats if not {row.choice for row in both} & {"same", "skip"}]
    raters, pairs = [row.rater for _, row in decided], [row.pair for _, row in decided]
    clusters = Clusters.of(raters, questions=pairs)
    changed = [float(before.choice != row.choice) for before, row in decided]
    dates = [[read_date(row.date).start for row in both] for both in decided]
    late = [after - before > timedelta(days) for before, after in dates]
    agreement = clustered_mean([1 - value for value in changed], clusters)
    drift = group_gap(changed, late, clusters)
    a = None if agreement.value is None else max(0.5, agreement.value)
    is_drift = (drift.value or 0) > 0 and drift.p is not None and drift.p < 0.05
    return RetestReport(
        agreement=ReportedEstimate.of(agreement),
        n_undecided=len(repeats) - len(decided),
        ceiling=None if a is None else (a, (1 + math.sqrt(2 * a - 1)) / 2),
        days=days,
        n_late=sum(late),
        drift=ReportedEstimate.of(drift),
        p=drift.p,
        drifted="found" if is_drift else "not shown",
    )
