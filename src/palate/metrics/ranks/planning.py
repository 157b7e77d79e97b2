"""How many scorers it takes to tell two benchmarks apart.

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

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri, owens_t

from palate.errors import UsageError
from palate.metrics.arrays import FloatArray
from palate.metrics.estimates import ROUNDING
from palate.metrics.ranks.agreement import LEAST_SCORERS, figures_of
from palate.metrics.ranks.copula import fit_copula
from palate.metrics.ranks.statistics import statistics

NODES = 40
POWER, ALPHA = 0.8, 0.05
SIZED, ENOUGH = 1_000, 100
MOST_SCORERS = 1_000_000


def scorers_needed(
    tau_first: float,
    tau_second: float,
    *,
    tau_between: float | None = None,
    power: float = POWER,
    alpha: float = ALPHA,
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
    scale = _scale(power, alpha)
    given = (tau_first, tau_second, 0.0 if tau_between is None else tau_between)
    if not all(-1 < tau < 1 for tau in given):
        raise UsageError("every τ must be in (-1, 1)")
    if tau_first == tau_second:
        raise UsageError("two equal τ's cannot be told apart by any number of scorers")
    r1, r2 = math.sin(math.pi * tau_first / 2), math.sin(math.pi * tau_second / 2)
    r12 = r1 * r2 if tau_between is None else math.sin(math.pi * tau_between / 2)
    needed = (tau_first - tau_second) ** 2 / scale**2
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


def scorers_needed_like(
    first: ArrayLike,
    second: ArrayLike,
    downstream: ArrayLike,
    *,
    power: float = POWER,
    alpha: float = ALPHA,
    seed: int = 0,
) -> int | None:
    """Scorers like those at hand that would tell two benchmarks' τ-b with one ranking apart.

    ``n (sd_n (z_{1 - alpha/2} + z_power) / Δ)²`` for the observed Δ, where sd_n is that of Δ over
    sets of n scorers drawn from the copula of `fit_copula`; n is first the observed number, then
    what that gives, up to a hundred, from where on the variance falls with 1/n. None where a τ is
    not defined, where the two are equal, and for over a million scorers.

    Args:
        first: figures of the one benchmark, one per scorer, shape (n,).
        second: figures of the other.
        downstream: what both should foretell.
        power: chance of finding the difference.
        alpha: two-sided level of the test.
        seed: of the draws.

    Raises:
        UsageError: as ``rank_agreement``, for columns of unequal length, or power or alpha
            outside of (0, 1).

    Example:
        >>> skill = [1, 2, 3, 4, 5, 6, 7, 8]
        >>> scorers_needed_like([1, 3, 2, 4, 6, 5, 7, 8], [4, 1, 7, 2, 8, 6, 5, 3], skill)
        9
    """
    x1, y = figures_of(first, downstream)
    x2, _ = figures_of(second, downstream)
    scale, kendall = _scale(power, alpha), statistics()[0]
    population = fit_copula(x1, x2, y, kendall, seed=seed)
    difference = float(kendall(x1, y)[0] - kendall(x2, y)[0])
    if population is None or abs(difference) < ROUNDING:
        return None
    n = y.size
    for _ in range(2):
        one, other, picks = population.draw(n, seed=seed, draws=SIZED)
        sd = float(np.nanstd(kendall(one, picks) - kendall(other, picks)))
        needed = n * (sd * scale / difference) ** 2
        n = max(LEAST_SCORERS, math.ceil(min(needed, ENOUGH)))
    return max(LEAST_SCORERS, math.ceil(needed)) if needed <= MOST_SCORERS else None


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


def _scale(power: float, alpha: float) -> float:
    if not (0 < power < 1 and 0 < alpha < 1):
        raise UsageError("power and alpha must be in (0, 1)")
    return float(ndtri(1 - alpha / 2) + ndtri(power))


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
