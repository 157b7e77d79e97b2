"""Raters who are asked again: how often they choose alike, and whether their taste drifts.

With p a pair's chance of its likelier answer, the share of repeats that agree is
a = E[p² + (1 − p)²], and no scorer is right more often than E p: at least a, at most
(1 + √(2a − 1))/2. Drift is what changes after some days beyond what changes before.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Literal

from palate.metrics import Clusters, clustered_mean, group_gap
from palate.records import Record, read_date
from palate.runs import ReportedEstimate
from palate.study.records import AnswerRow

SIDES = ("first", "second")


class RetestReport(Record):
    """What repeats tell of raters; by the jackknife over raters and pairs."""

    n_undecided: int
    """Repeats left out since one of the answers names no side."""
    agreement: ReportedEstimate
    """Share of repeats with the same choice, a."""
    ceiling: tuple[float, float] | None
    """Between which the accuracy of the best scorer lies; a below ½ counts as ½."""
    days: float
    n_late: int
    """Repeats more than so many days later."""
    drift: ReportedEstimate
    """Share of changed choices among late repeats, less that among the others."""
    p: float | None
    """Of the drift."""
    drifted: Literal["found", "not shown"]


def retest_report(answers: Sequence[AnswerRow], *, days: float = 14) -> RetestReport | None:
    """Compare each repeat with its rater's earliest answer to the pair; None without repeats."""
    before: dict[tuple[str, str], AnswerRow] = {}
    for answer in answers:
        if not answer.again:
            before.setdefault((answer.rater, answer.item), answer)
    repeats = [
        (before[answer.rater, answer.item], answer)
        for answer in answers
        if answer.again and (answer.rater, answer.item) in before
    ]
    if not repeats:
        return None
    # A scorer is measured on decided choices, so the ceiling is theirs.
    decided = [pair for pair in repeats if all(answer.choice in SIDES for answer in pair)]
    late = [_start(second) - _start(first) > timedelta(days) for first, second in decided]
    changed = [float(first.choice != second.choice) for first, second in decided]
    clusters = Clusters.of(
        [answer.rater for _, answer in decided], questions=[answer.pair for _, answer in decided]
    )
    agreement = clustered_mean([1 - value for value in changed], clusters)
    drift = group_gap(changed, late, clusters)
    is_drift = (drift.value or 0) > 0 and drift.p is not None and drift.p < 0.05
    return RetestReport(
        n_undecided=len(repeats) - len(decided),
        agreement=ReportedEstimate.of(agreement),
        ceiling=None if agreement.value is None else ceiling_of(agreement.value),
        days=days,
        n_late=sum(late),
        drift=ReportedEstimate.of(drift),
        p=drift.p,
        drifted="found" if is_drift else "not shown",
    )


def ceiling_of(agreement: float) -> tuple[float, float]:
    """Return the bounds of the best scorer's accuracy, from retest agreement.

    >>> low, high = ceiling_of(0.707)
    >>> round(low, 3), round(high, 3)
    (0.707, 0.822)
    """
    a = max(agreement, 0.5)
    return a, (1 + math.sqrt(2 * a - 1)) / 2


def _start(answer: AnswerRow) -> datetime:
    return read_date(answer.date).start
