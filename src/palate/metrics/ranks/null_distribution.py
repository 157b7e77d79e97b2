"""Agreement by chance: exact over all orders, or over seeded ones."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import permutations

import numpy as np
from numpy.typing import NDArray

from palate.metrics.arrays import FloatArray
from palate.metrics.estimates import ROUNDING, TAIL
from palate.metrics.ranks.statistics import RankStatistic

EXACT_UP_TO = 8


@dataclass(frozen=True, slots=True)
class NullDistribution:
    """A statistic under random rankings; all None where the statistic is not defined."""

    p: float | None
    """Two-sided."""
    mean: float | None
    low: float | None
    """2.5 % quantile: the smallest value that at least 2.5 % of rankings do not exceed."""
    high: float | None
    """97.5 % quantile."""
    orders: int
    """How many rankings were tried."""
    exact: bool
    """True where they were all n! of them."""


def null_distribution(
    statistic: RankStatistic, x: FloatArray, y: FloatArray, *, seed: int = 0, draws: int = 9_999
) -> NullDistribution:
    """Test a statistic against random rankings: ``y`` fixed, the figures ``x`` in any order.

    Up to 8 scorers all n! orders are tried, ties as they are, and p is the share of them that
    reaches the observed value: ``|s| ≥ |s_obs|``. Beyond, ``p = (1 + hits) / (1 + draws)``. The
    scorers are sorted by their figures first, so that the order in which they are listed cannot
    change p.

    >>> from palate.metrics.ranks.statistics import KENDALL
    >>> y = np.array([2.0, 1, 4, 3, 6, 5])
    >>> found = null_distribution(KENDALL, np.arange(6.0), y)
    >>> round(found.p, 4), found.mean, round(found.high, 3), found.orders
    (0.1361, 0.0, 0.733, 720)
    """
    order = np.lexsort((x, y))
    x, y = x[order], y[order]
    exact = x.size <= EXACT_UP_TO
    shuffled = x[all_orders(x.size)] if exact else _drawn(x, seed, draws)
    values, observed = statistic(shuffled, y), float(statistic(x, y)[0])
    if np.isnan(observed):
        return NullDistribution(None, None, None, None, len(values), exact)
    hits = np.count_nonzero(np.abs(values) >= abs(observed) - ROUNDING)
    p = hits / values.size if exact else (1 + hits) / (1 + values.size)
    low, high = np.quantile(values, [TAIL, 1 - TAIL], method="inverted_cdf").tolist()
    # A mean of 0 by symmetry is printed as 0, not as the sum of rounding errors.
    mean = float(values.mean())
    return NullDistribution(
        float(p), 0.0 if abs(mean) < ROUNDING else mean, low, high, values.size, exact
    )


@cache
def all_orders(n: int) -> NDArray[np.int8]:
    """All orders of n things, shape (n!, n).

    >>> all_orders(3).shape
    (6, 3)
    """
    return np.array(list(permutations(range(n))), dtype=np.int8)


def _drawn(x: FloatArray, seed: int, draws: int) -> FloatArray:
    rng = np.random.default_rng(seed)
    return rng.permuted(np.broadcast_to(x, (draws, x.size)), axis=1)
