"""How many scorers a claim about rankings needs, and what a given number can show.

Scorers are taken as draws from a population in which the figures, each on some monotone scale,
are jointly normal; τ = (2/π) arcsin r. Then (Esscher 1924; Kendall)

```
Var t       = 2/(n(n - 1)) · (1 - τ² + 2(n - 2)(1/9 - ((2/π) arcsin(r/2))²))
Cov t₁, t₂  = 2/(n(n - 1)) · (τ₁₂ - τ₁τ₂ + 2(n - 2)(E g₁g₂ - τ₁τ₂))
g(x, y)     = 4Φ₂(x, y; r) - 2Φ(x) - 2Φ(y) + 1
```

for the τ's of two benchmarks with one downstream ranking and τ₁₂ with each other. g is the mean
agreement of one scorer with all others; its moment is taken by Gauss–Hermite quadrature.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri, owens_t

from palate.errors import UsageError
from palate.metrics.arrays import FloatArray
from palate.metrics.estimates import ROUNDING
from palate.metrics.ranks.chance import EXACT_UP_TO, all_orders
from palate.metrics.ranks.over_scorers import Population, Range, range_over_scorers
from palate.metrics.ranks.statistics import Statistic, statistics

NODES = 40
MOST_SCORERS = 1_000_000
MOST_RESOLVED = 200
DETECTION_DRAWS = 10_000
SHOWN_AT = (0.0, 0.5, 1.0)


@dataclass(frozen=True, slots=True)
class Resolution:
    """What a comparison of two rankings of n scorers can show, untied and two-sided."""

    n: int
    smallest_p: float
    """2/n!: the p of a perfect τ or ρ."""
    critical_tau: float | None
    """Smallest |τ| with p ≤ alpha; None where even a perfect ranking has a larger p."""
    critical_rho: float | None
    """The same for Spearman's ρ; None also beyond 8 scorers, where orders are not enumerated."""
    detectable_tau: float | None
    """True τ that reaches the critical one with the given power."""
    intervals: tuple[tuple[float, Range], ...]
    """95 % interval over scorers at the possible τ's nearest to 0, 0.5 and 1."""


def scorers_needed(
    tau_first: float,
    tau_second: float,
    *,
    tau_between: float | None = None,
    power: float = 0.8,
    alpha: float = 0.05,
) -> int:
    """Scorers needed to tell two benchmarks' true τ with one downstream ranking apart.

    The smallest n with ``|τ₁ - τ₂| ≥ (z_{1 - alpha/2} + z_power) √Var(t₁ - t₂)``.

    Args:
        tau_first: τ of the one benchmark with the downstream ranking, in (-1, 1).
        tau_second: τ of the other.
        tau_between: τ of the two benchmarks; by default they share only what both share with the
            downstream ranking (``r₁₂ = r₁ r₂``). The closer they are, the fewer scorers it takes.
        power: chance of finding the difference.
        alpha: two-sided level of the test.

    Raises:
        UsageError: for equal τ's, values outside of their range, three τ's that no population
            has, or a need of over a million scorers.

    Example:
        >>> scorers_needed(0.7, 0.4), scorers_needed(0.7, 0.4, tau_between=0.6)
        (34, 20)
    """
    if not (0 < power < 1 and 0 < alpha < 1):
        raise UsageError("power and alpha must be in (0, 1)")
    given = (tau_first, tau_second, 0.0 if tau_between is None else tau_between)
    if not all(-1 < tau < 1 for tau in given):
        raise UsageError("every τ must be in (-1, 1)")
    if tau_first == tau_second:
        raise UsageError("two equal τ's cannot be told apart by any number of scorers")
    r1, r2 = math.sin(math.pi * tau_first / 2), math.sin(math.pi * tau_second / 2)
    r12 = r1 * r2 if tau_between is None else math.sin(math.pi * tau_between / 2)
    needed = (tau_first - tau_second) ** 2 / float(ndtri(1 - alpha / 2) + ndtri(power)) ** 2
    pairs, single = _difference_terms(r1, r2, r12)

    def enough(n: int) -> bool:
        return 2 / (n * (n - 1)) * (pairs + 2 * (n - 2) * single) <= needed

    if not enough(MOST_SCORERS):
        raise UsageError(f"over {MOST_SCORERS:,} scorers would be needed")
    low, high = 2, MOST_SCORERS
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return max(high, 3)


def resolution(n: int, *, alpha: float = 0.05, power: float = 0.8, seed: int = 0) -> Resolution:
    """Say what n scorers can show: smallest p, critical and detectable τ, width of intervals.

    Args:
        n: scorers, 3 to 200.
        alpha: two-sided level of the test.
        power: chance of finding the detectable τ.
        seed: of the simulated scorers.

    Raises:
        UsageError: for n, alpha or power outside of their range.

    Example:
        >>> six = resolution(6)
        >>> round(six.smallest_p, 4), round(six.critical_tau, 3), round(six.critical_rho, 3)
        (0.0028, 0.867, 0.886)
    """
    if not 3 <= n <= MOST_RESOLVED:
        raise UsageError(f"expected 3 to {MOST_RESOLVED} scorers, got {n}")
    if not (0 < power < 1 and 0 < alpha < 1):
        raise UsageError("power and alpha must be in (0, 1)")
    kendall, spearman = statistics()[:2]
    critical = critical_tau(n, alpha=alpha)
    return Resolution(
        n=n,
        smallest_p=min(1.0, 2 / math.factorial(n)),
        critical_tau=critical,
        critical_rho=_critical_by_enumeration(spearman, n, alpha),
        detectable_tau=_detectable(kendall, n, critical, power, seed),
        intervals=tuple(_interval_at(kendall, n, tau, seed) for tau in SHOWN_AT),
    )


def critical_tau(n: int, *, alpha: float = 0.05) -> float | None:
    """Smallest |τ| of n untied scorers with exact two-sided p ≤ alpha; None where there is none.

    Exact at any n: the numbers of orders with 0, 1, … inversions are the coefficients of
    ``Π_{j ≤ n} (1 + q + … + q^(j - 1))``.

    Example:
        >>> critical_tau(4), critical_tau(5), round(critical_tau(10), 3)
        (None, 1.0, 0.511)
    """
    share = np.ones(1)
    for j in range(2, n + 1):
        share = np.convolve(share, np.full(j, 1 / j))
    pairs = share.size - 1
    # P(|τ| ≥ τ_d) for d = 0, 1, … inversions, counted from both ends.
    tail = 2 * np.cumsum(share[: (pairs + 1) // 2])
    possible = np.flatnonzero(tail <= alpha * (1 + ROUNDING))
    return 1 - 2 * int(possible[-1]) / pairs if possible.size else None


def tau_variance(tau: float, n: int) -> float:
    """Variance of τ over sets of n scorers, by the formula of this module.

    Example:
        >>> tau_variance(0.0, 6) == 2 * (2 * 6 + 5) / (9 * 6 * 5)
        True
    """
    r = math.sin(math.pi * tau / 2)
    return 2 / (n * (n - 1)) * (1 - tau**2 + 2 * (n - 2) * _single(r))


def tau_covariance(tau_first: float, tau_second: float, tau_between: float, n: int) -> float:
    """Covariance of two benchmarks' τ with one downstream ranking, by this module's formula.

    Raises:
        UsageError: for three τ's that no population has.

    Example:
        >>> abs(tau_covariance(0.5, 0.5, 0.9999, 12) / tau_variance(0.5, 12) - 1) < 0.01
        True
    """
    r = (math.sin(math.pi * tau / 2) for tau in (tau_first, tau_second, tau_between))
    pairs, single = _joint_terms(*r)
    return 2 / (n * (n - 1)) * (pairs + 2 * (n - 2) * single)


def _tau(r: float) -> float:
    return 2 / math.pi * math.asin(r)


def _single(r: float) -> float:
    return 1 / 9 - _tau(r / 2) ** 2


def _difference_terms(r1: float, r2: float, r12: float) -> tuple[float, float]:
    pairs, single = _joint_terms(r1, r2, r12)
    return (
        2 - _tau(r1) ** 2 - _tau(r2) ** 2 - 2 * pairs,
        _single(r1) + _single(r2) - 2 * single,
    )


def _joint_terms(r1: float, r2: float, r12: float) -> tuple[float, float]:
    try:
        root = np.linalg.cholesky(np.array([[1, r1, r2], [r1, 1, r12], [r2, r12, 1]]))
    except np.linalg.LinAlgError:
        raise UsageError("no population of scorers has these three τ's together") from None
    nodes, weights = np.polynomial.hermite_e.hermegauss(NODES)
    weights = weights / weights.sum()
    grid = np.stack(np.meshgrid(nodes, nodes, nodes, indexing="ij"), axis=-1) @ root.T
    y, x1, x2 = grid[..., 0], grid[..., 1], grid[..., 2]
    moment = np.einsum(
        "ijk,i,j,k->", _mean_agreement(x1, y, r1) * _mean_agreement(x2, y, r2), *[weights] * 3
    )
    both = _tau(r1) * _tau(r2)
    return _tau(r12) - both, float(moment) - both


def _mean_agreement(x: FloatArray, y: FloatArray, r: float) -> FloatArray:
    # g of this module; the bivariate normal integral by Owen's T.
    x = np.where(np.abs(x) < ROUNDING, ROUNDING, x)
    y = np.where(np.abs(y) < ROUNDING, ROUNDING, y)
    s = math.sqrt(1 - r * r)
    both = (ndtr(x) + ndtr(y)) / 2 - (x * y < 0) / 2
    both = both - owens_t(x, (y / x - r) / s) - owens_t(y, (x / y - r) / s)
    g: FloatArray = 4 * both - 2 * ndtr(x) - 2 * ndtr(y) + 1
    return g


def _critical_by_enumeration(statistic: Statistic, n: int, alpha: float) -> float | None:
    if n > EXACT_UP_TO:
        return None
    figures = np.arange(float(n))
    values = np.sort(np.abs(statistic(figures[all_orders(n)], figures)))
    p = 1 - np.searchsorted(values, values - ROUNDING) / values.size
    reached = values[p <= alpha * (1 + ROUNDING)]
    return float(reached[0]) if reached.size else None


def _detectable(
    kendall: Statistic, n: int, critical: float | None, power: float, seed: int
) -> float | None:
    if critical is None:
        return None
    figures = np.arange(float(n))
    draws = max(1_000, min(DETECTION_DRAWS, DETECTION_DRAWS * 400 // n**2))
    population = Population(figures, figures, seed=seed, draws=draws)
    low, high = 0.0, 1.0
    while high - low > 1e-3:
        tau = (low + high) / 2
        found = kendall(*population.draws(math.sin(math.pi * tau / 2)))
        reached = float(np.mean(found >= critical - ROUNDING)) >= power
        low, high = (low, tau) if reached else (tau, high)
    return high


def _interval_at(kendall: Statistic, n: int, tau: float, seed: int) -> tuple[float, Range]:
    figures = np.arange(float(n))
    other = _with_inversions(n, round((1 - tau) * n * (n - 1) / 4))
    found = float(kendall(figures, other)[0])
    return found, range_over_scorers(kendall, figures, other, seed=seed)


def _with_inversions(n: int, inversions: int) -> FloatArray:
    # Puts the largest that is left as far forward as the inversions allow.
    order: list[float] = []
    for value in range(n):
        back = min(inversions, value)
        order.insert(value - back, float(value))
        inversions -= back
    return np.array(order)
