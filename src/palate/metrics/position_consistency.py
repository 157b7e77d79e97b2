"""Does a judge keep its mind when the two responses change places?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from palate.metrics.accuracy import outcome_counts
from palate.metrics.arrays import same_length, vector


@dataclass(frozen=True, slots=True)
class PositionConsistency:
    """A judge's votes in both orders; shares are None without pairs read in both."""

    consistent: float | None
    """Share of pairs with the same verdict in both orders."""
    low: float | None
    """Lower end of its 95 % Wilson interval."""
    high: float | None
    """Upper end of its 95 % Wilson interval."""
    bias: float | None
    """P(the response shown first wins) - 1/2, ties half; in [-1/2, 1/2]."""
    bias_p: float | None
    """Exact binomial p-value of as many "first, first" as "second, second" pairs."""
    first_twice: int
    """Pairs in which the position shown first won both times."""
    second_twice: int
    """Pairs in which the position shown second won both times."""
    n: int
    """Pairs read in both orders."""


def position_consistency(
    first_order_votes: ArrayLike, second_order_votes: ArrayLike
) -> PositionConsistency:
    """Share of pairs judged alike in both orders, and the pull of the first position.

    With votes v₁, v₂ (1, 1/2 for a tie, 0, NaN where unread) for the response that is shown first
    in the first order and second in the second order: consistent where ``v₁ = v₂``;
    ``bias = mean(v₁ - v₂) / 2``.

    >>> c = position_consistency([1, 1, 1, 0], [1, 0, 1, 0])
    >>> c.consistent, round(c.low, 3), round(c.high, 3), c.bias
    (0.75, 0.301, 0.954, 0.125)
    """
    from scipy.stats import binomtest  # slow to import

    first, second = vector(first_order_votes), vector(second_order_votes)
    same_length(first_order_votes=first, second_order_votes=second)
    outcome_counts(np.concatenate([first, second]))
    both = ~np.isnan(first + second)
    moved = (first - second)[both]
    n = int(moved.size)
    if not n:
        return PositionConsistency(None, None, None, None, None, 0, 0, 0)
    same = int(np.count_nonzero(moved == 0))
    ones, others = int(np.count_nonzero(moved == 1)), int(np.count_nonzero(moved == -1))
    bias = float(moved.mean()) / 2
    low, high = binomtest(same, n).proportion_ci(method="wilson")
    p = binomtest(ones, ones + others).pvalue if ones + others else 1.0
    return PositionConsistency(same / n, float(low), float(high), bias, float(p), ones, others, n)
