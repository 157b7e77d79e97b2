"""Which of two benchmarks predicts the same downstream figures better?

Both are compared with one vector of downstream figures, so their agreements depend on each other:
on shared scorers, and on whatever the two benchmarks have in common. Where the two are equally
good, a scorer's ranks in them may be exchanged; p is the share of exchanges with ``|Δ*| ≥ |Δ|``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import rankdata

from palate.metrics.arrays import FloatArray
from palate.metrics.estimates import ROUNDING
from palate.metrics.ranks.agreement import figures_of
from palate.metrics.ranks.statistics import RBO_P, Gain, Statistic, statistics

SWAP_EXACT_UP_TO = 12
LEAST_LEVEL, LEVEL_SHARE = 3, 0.25

Exchanged = tuple[FloatArray, FloatArray, FloatArray]
"""Ranks in either benchmark by exchange, the first as observed, and the downstream figures."""


@dataclass(frozen=True, slots=True)
class AgreementDifference:
    """Agreement of the first benchmark minus that of the second; None where not defined."""

    statistic: str
    setting: str | None
    first: float | None
    second: float | None
    value: float | None
    n: int
    """Scorers."""
    p: float | None
    """Two-sided, by exchanging the two benchmarks' ranks scorer by scorer."""
    exact: bool
    """True where every exchange was tried."""


def agreement_differences(
    first: ArrayLike,
    second: ArrayLike,
    downstream: ArrayLike,
    *,
    rbo_p: float = RBO_P,
    gain: Gain = "shifted",
    seed: int = 0,
    draws: int = 9_999,
) -> tuple[AgreementDifference, ...]:
    """Compare two benchmarks' agreement with the same downstream figures, by five statistics.

    All 2ⁿ exchanges are tried up to 12 scorers whose ranks differ, else p is
    ``(1 + hits) / (1 + draws)`` over seeded ones. It needs six such scorers to reach 0.05.

    Where `level_in_both` names a set of scorers, ranks are counted from it, so that to exchange
    one of them changes nothing.

    Args:
        first: figures of the one benchmark, shape (n,), higher is better.
        second: figures of the other.
        downstream: what both should predict.
        rbo_p: persistence of RBO.
        gain: of NDCG.
        seed: of the exchanges.
        draws: how many exchanges beyond 12 scorers.

    Raises:
        UsageError: as ``rank_agreement``.
        ValueError: for columns of unequal length.

    Example:
        >>> truth = [1, 2, 3, 4, 5, 6, 7, 8]
        >>> kendall = agreement_differences(truth, [4, 8, 1, 7, 2, 6, 5, 3], truth)[0]
        >>> kendall.first, round(kendall.second, 3), round(kendall.p, 3)
        (1.0, -0.143, 0.031)
    """
    x1, y = figures_of(first, downstream)
    x2, _ = figures_of(second, downstream)
    exchanged, exact = _exchanges(x1, x2, y, seed=seed, draws=draws)
    differences = []
    for statistic in statistics(rbo_p=rbo_p, gain=gain):
        s1, s2 = (float(statistic(x, y)[0]) for x in (x1, x2))
        defined = not math.isnan(s1 - s2)
        differences.append(
            AgreementDifference(
                statistic=statistic.name,
                setting=statistic.setting,
                first=None if math.isnan(s1) else s1,
                second=None if math.isnan(s2) else s2,
                value=s1 - s2 if defined else None,
                n=y.size,
                p=_exchange_p(statistic, exchanged) if defined else None,
                exact=exact,
            )
        )
    return tuple(differences)


def level_in_both(x1: FloatArray, x2: FloatArray) -> NDArray[np.bool_]:
    """Who is tied in both benchmarks: the largest such set of scorers, if not a small one.

    Not small: three scorers at least, and a quarter of all. Scorers that ignore the user are at ½
    in every figure of mirrored couples.

    Example:
        >>> level_in_both(np.array([1, 1, 1, 2, 3.0]), np.array([4, 4, 4, 4, 3.0])).sum()
        np.int64(3)
    """
    columns = np.stack([x1, x2])
    _, member, sizes = np.unique(columns, axis=1, return_inverse=True, return_counts=True)
    most = sizes.max()
    if most < max(LEAST_LEVEL, LEVEL_SHARE * x1.size) or np.count_nonzero(sizes == most) > 1:
        return np.zeros(x1.size, dtype=bool)
    largest: NDArray[np.bool_] = member.ravel() == sizes.argmax()
    return largest


def _exchanges(
    x1: FloatArray, x2: FloatArray, y: FloatArray, *, seed: int, draws: int
) -> tuple[Exchanged, bool]:
    # Ranks, since the two benchmarks may have different units; the first row is as observed.
    a, b = rankdata(x1), rankdata(x2)
    level = level_in_both(a, b)
    if level.any():
        a, b = a - a[level][0], b - b[level][0]
    # Sorted, and the lower rank first, so that neither the listing of scorers nor the names of the
    # benchmarks change what is drawn.
    lower, upper = np.minimum(a, b), np.maximum(a, b)
    order = np.lexsort((upper, lower, y))
    turned = (a > b)[order]
    lower, upper, y = lower[order], upper[order], y[order]
    moving = np.flatnonzero(lower != upper)
    exact = moving.size <= SWAP_EXACT_UP_TO
    if exact:
        swap = np.zeros((1 << moving.size, y.size), dtype=bool)
        swap[:, moving] = (np.arange(len(swap))[:, None] >> np.arange(moving.size)) & 1
    else:
        swap = np.random.default_rng(seed).integers(0, 2, size=(1 + draws, y.size)).astype(bool)
        swap[0] = False
    swap ^= turned
    return (np.where(swap, upper, lower), np.where(swap, lower, upper), y), exact


def _exchange_p(statistic: Statistic, exchanged: Exchanged) -> float:
    first, second, y = exchanged
    moved = statistic(first, y) - statistic(second, y)
    # An exchange may leave a benchmark without any order; it then has nothing to agree with.
    moved = np.abs(np.where(np.isnan(moved), 0.0, moved))
    hits = int(np.count_nonzero(moved >= moved[0] - ROUNDING))
    # Beyond enumeration the observed row is the 1 of (1 + hits) / (1 + draws).
    return hits / moved.size
