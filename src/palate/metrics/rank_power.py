"""Power of rankings of few scorers, the better of two benchmarks, and reliability of a figure.

Two benchmarks are compared with one vector of downstream figures, so their agreements depend on
each other: on shared scorers, and on whatever the two have in common. Where the two are equally
good, a scorer's ranks in them may be exchanged; p is the share of exchanges with ``|Δ*| ≥ |Δ|``.

How much of what sets scorers apart is true: with x_i the figure of scorer i, a mean over the same
rows (or couples) for all n scorers,

```
r    = 1 - Σ_{i<j} V_ij / Σ_{i<j} (x_i - x_j)²
V_ij = V_user + V_item - V_cell of the paired difference of scorers i and j, 0 at least
ν    = min(U_eff, I_eff) - 1
interval [1 - (1 - r) F_{0.975; n - 1, ν}, 1 - (1 - r) F_{0.025; n - 1, ν}]
```

all clipped to [0, 1]. Two figures of the same scorers cannot correlate by more than about
``√(r_x r_y)``, however well the one predicts the other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import fdtri

from palate.errors import UsageError
from palate.metrics.arrays import FloatArray, same_length
from palate.metrics.clusters import Clusters, ratio, variances
from palate.metrics.estimates import ROUNDING, TAIL
from palate.metrics.ranks import (
    EXACT_UP_TO,
    KENDALL,
    LEAST_SCORERS,
    SPEARMAN,
    Interval,
    ScorerPopulation,
    all_orders,
    figures_of,
    range_over_scorers,
    ranks_of,
)

ALPHA, POWER = 0.05, 0.8
MOST_RESOLVED = 200
DETECTION_DRAWS = 10_000
SHOWN_AT = (0.0, 0.5, 1.0)


@dataclass(frozen=True, slots=True)
class RankPower:
    """What a comparison of two rankings of n scorers can show, untied and two-sided."""

    n: int
    critical_tau: float | None
    """Smallest |τ| with p ≤ 0.05; None where even a perfect ranking has a larger p."""
    critical_rho: float | None
    """The same for Spearman's ρ; None also beyond 8 scorers, where orders are not enumerated."""
    minimum_detectable_tau: float | None
    """True τ that reaches the critical one 8 times of 10."""
    intervals: tuple[tuple[float, Interval], ...]
    """95 % interval over scorers at the possible τ's nearest to 0, 0.5 and 1."""


def rank_power(n: int, *, seed: int = 0) -> RankPower:
    """Say what n scorers can show: critical and detectable τ, width of intervals.

    A perfect τ or ρ has ``p = 2/n!``. Raises `UsageError` for fewer than 3 or over 200 scorers.

    >>> six = rank_power(6)
    >>> round(six.critical_tau, 3), round(six.critical_rho, 3)
    (0.867, 0.886)
    """
    if not 3 <= n <= MOST_RESOLVED:
        raise UsageError(f"expected 3 to {MOST_RESOLVED} scorers, got {n}")
    critical = least_significant_tau(n)
    return RankPower(
        n=n,
        critical_tau=critical,
        critical_rho=_critical_rho(n),
        minimum_detectable_tau=_detectable(n, critical, seed),
        intervals=tuple(_interval_at(n, tau, seed) for tau in SHOWN_AT),
    )


def least_significant_tau(n: int) -> float | None:
    """Smallest |τ| of n untied scorers with exact two-sided p ≤ 0.05.

    Exact at any n: the numbers of orders with 0, 1, … inversions are the coefficients of
    ``Π_{j ≤ n} (1 + q + … + q^(j - 1))``.
    """
    share = np.ones(1)
    for j in range(2, n + 1):
        share = np.convolve(share, np.full(j, 1 / j))
    pairs = share.size - 1
    # P(|τ| ≥ τ_d) for d = 0, 1, … inversions, counted from both ends.
    tail = 2 * np.cumsum(share[: (pairs + 1) // 2])
    possible = np.flatnonzero(tail <= ALPHA * (1 + ROUNDING))
    return 1 - 2 * int(possible[-1]) / pairs if possible.size else None


def _critical_rho(n: int) -> float | None:
    if n > EXACT_UP_TO:
        return None
    figures = np.arange(float(n))
    values = np.sort(np.abs(SPEARMAN(figures[all_orders(n)], figures)))
    p = 1 - np.searchsorted(values, values - ROUNDING) / values.size
    reached = values[p <= ALPHA * (1 + ROUNDING)]
    return float(reached[0]) if reached.size else None


def _detectable(n: int, critical: float | None, seed: int) -> float | None:
    if critical is None:
        return None
    figures = np.arange(float(n))
    draws = max(1_000, min(DETECTION_DRAWS, DETECTION_DRAWS * 400 // n**2))
    population = ScorerPopulation(figures, figures, seed, draws)
    low, high = 0.0, 1.0
    while high - low > 1e-3:
        tau = (low + high) / 2
        found = KENDALL(*population.draws(math.sin(math.pi * tau / 2)))
        reached = float(np.mean(found >= critical - ROUNDING)) >= POWER
        low, high = (low, tau) if reached else (tau, high)
    return high


def _interval_at(n: int, tau: float, seed: int) -> tuple[float, Interval]:
    figures = np.arange(float(n))
    other = _with_inversions(n, round((1 - tau) * n * (n - 1) / 4))
    found = float(KENDALL(figures, other)[0])
    return found, range_over_scorers(KENDALL, figures, other, seed)


def _with_inversions(n: int, inversions: int) -> FloatArray:
    # Puts the largest that is left as far forward as the inversions allow.
    order: list[float] = []
    for value in range(n):
        back = min(inversions, value)
        order.insert(value - back, float(value))
        inversions -= back
    return np.array(order)


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
    moved, exact = _exchanged(x1, x2, y, seed, draws)
    # The observed one comes first: beyond enumeration, it is the 1 of (1 + hits) / (1 + draws).
    p = np.count_nonzero(moved >= moved[0] - ROUNDING) / moved.size
    first_tau, second_tau, value = (None if math.isnan(t) else t for t in (t1, t2, t1 - t2))
    return AgreementDifference(
        first_tau, second_tau, value, y.size, None if value is None else float(p), exact
    )


def _exchanged(
    x1: FloatArray, x2: FloatArray, y: FloatArray, seed: int, draws: int
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


@dataclass(frozen=True, slots=True)
class Reliability:
    """Share of the variance between scorers that is no noise of users and items, 95 % interval."""

    value: float
    low: float
    high: float
    df: float
    """Degrees of freedom of the noise, ν."""


def reliability(values: ArrayLike, clusters: Clusters) -> Reliability | None:
    """Reliability of the scorers' means over rows, with its 95 % interval.

    None where it is not defined: fewer than three scorers, all means equal, an effective number of
    users or items of 2 or less, or one cluster that holds all rows.

    `values` are of each row (or couple) under each scorer, shape (rows, n), all finite.

    >>> rng = np.random.default_rng(0)
    >>> skill, noise = np.array([0.0, 1.0, 2.0, 3.0]), rng.normal(0, 3.0, (40, 4))
    >>> figure = reliability(skill + noise, Clusters.of(range(40)))
    >>> round(figure.value, 2), round(figure.low, 2), round(figure.high, 2), round(figure.df)
    (0.91, 0.68, 0.99, 39)
    """
    x = np.asarray(values, dtype=np.float64)
    if x.ndim != 2 or not bool(np.isfinite(x).all()):
        raise ValueError(f"expected finite values of shape (rows, scorers), got {x.shape}")
    same_length(values=x, users=clusters.users[0])
    rows, n = x.shape
    if n < LEAST_SCORERS or not rows:
        return None
    means = x.mean(axis=0)
    spread = sum((a - b) ** 2 for a, b in combinations(means.tolist(), 2))
    ones = np.ones(rows)
    effective, _ = clusters.effective(ones)
    size = float(np.abs(x).max())
    if effective <= 2 or spread <= (ROUNDING * size) ** 2:
        return None
    noise = 0.0
    for i, j in combinations(range(n), 2):
        parts = variances(ratio(x[:, i] - x[:, j], ones), ones, clusters)
        if parts is None:
            return None
        of_users, of_items, of_cells = parts
        noise += max(0.0, of_users + of_items - of_cells)
    error, df = noise / spread, effective - 1
    factors = (1.0, float(fdtri(n - 1, df, 1 - TAIL)), float(fdtri(n - 1, df, TAIL)))
    value, low, high = (min(1.0, max(0.0, 1 - error * factor)) for factor in factors)
    return Reliability(value, low, high, df)
