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

from palate.metrics.arrays import FloatArray
from palate.metrics.estimates import ROUNDING
from palate.metrics.ranks.agreement import figures_of
from palate.metrics.ranks.statistics import KENDALL, ranks_of

SWAP_EXACT_UP_TO = 12
LEAST_LEVEL, LEVEL_SHARE = 3, 0.25


@dataclass(frozen=True, slots=True)
class AgreementDifference:
    """Kendall's τ-b of the first benchmark minus that of the second; None where not defined."""

    first: float | None
    second: float | None
    value: float | None
    n: int
    """Scorers."""
    p: float | None
    """Two-sided, by exchanging the two benchmarks' ranks scorer by scorer."""
    exact: bool
    """True where every exchange was tried."""


def agreement_difference(
    first: ArrayLike, second: ArrayLike, downstream: ArrayLike, *, seed: int = 0, draws: int = 9_999
) -> AgreementDifference:
    """Compare two benchmarks' Kendall τ-b with the same downstream figures, ``Δ = τ_1 - τ_2``.

    All 2ⁿ exchanges are tried up to 12 scorers whose ranks differ, else p is
    ``(1 + hits) / (1 + draws)`` over seeded ones. It needs six such scorers to reach 0.05.

    Where a set of scorers is level in both benchmarks, the largest such set, if it holds three
    scorers and a quarter of all, ranks are counted from it, so that to exchange one of them changes
    nothing: scorers that ignore the user are at ½ in every figure of mirrored couples.

    Raises `UsageError` as `rank_agreement`.

    >>> truth = [1, 2, 3, 4, 5, 6, 7, 8]
    >>> kendall = agreement_difference(truth, [4, 8, 1, 7, 2, 6, 5, 3], truth)
    >>> kendall.first, round(kendall.second, 3), round(kendall.p, 3)
    (1.0, -0.143, 0.031)
    """
    x1, y = figures_of(first, downstream)
    x2, _ = figures_of(second, downstream)
    t1, t2 = float(KENDALL(x1, y)[0]), float(KENDALL(x2, y)[0])
    moved, exact = _exchanged(x1, x2, y, seed=seed, draws=draws)
    # The observed one comes first: beyond enumeration, it is the 1 of (1 + hits) / (1 + draws).
    p = np.count_nonzero(moved >= moved[0] - ROUNDING) / moved.size
    first_tau, second_tau, value = (None if math.isnan(t) else t for t in (t1, t2, t1 - t2))
    return AgreementDifference(
        first_tau, second_tau, value, y.size, None if value is None else float(p), exact
    )


def _exchanged(
    x1: FloatArray, x2: FloatArray, y: FloatArray, *, seed: int, draws: int
) -> tuple[FloatArray, bool]:
    """Each |Δ*|, the first as observed, and whether all exchanges were tried."""
    # Ranks, since the two benchmarks may have different units.
    a, b = ranks_of(x1), ranks_of(x2)
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
    moved = KENDALL(np.where(swap, upper, lower), y) - KENDALL(np.where(swap, lower, upper), y)
    # An exchange may leave a benchmark without any order; it then has nothing to agree with.
    return np.abs(np.where(np.isnan(moved), 0.0, moved)), exact


def level_in_both(x1: FloatArray, x2: FloatArray) -> NDArray[np.bool_]:
    """Return which scorers form the largest group that is level in both benchmarks."""
    columns = np.stack([x1, x2])
    _, member, sizes = np.unique(columns, axis=1, return_inverse=True, return_counts=True)
    most = sizes.max()
    if most < max(LEAST_LEVEL, LEVEL_SHARE * x1.size) or np.count_nonzero(sizes == most) > 1:
        return np.zeros(x1.size, dtype=bool)
    return np.asarray(member.ravel() == sizes.argmax())
