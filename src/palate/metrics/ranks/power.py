"""The power of a comparison of two rankings of n scorers."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from palate.errors import UsageError
from palate.metrics.arrays import FloatArray
from palate.metrics.estimates import ROUNDING
from palate.metrics.ranks.null_distribution import EXACT_UP_TO, all_orders
from palate.metrics.ranks.over_scorers import Interval, ScorerPopulation, range_over_scorers
from palate.metrics.ranks.statistics import KENDALL, SPEARMAN

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
    population = ScorerPopulation(figures, figures, seed=seed, draws=draws)
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
    return found, range_over_scorers(KENDALL, figures, other, seed=seed)


def _with_inversions(n: int, inversions: int) -> FloatArray:
    # Puts the largest that is left as far forward as the inversions allow.
    order: list[float] = []
    for value in range(n):
        back = min(inversions, value)
        order.insert(value - back, float(value))
        inversions -= back
    return np.array(order)
