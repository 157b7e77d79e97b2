"""Agreement of two rankings of scorers, how much of it is chance, and its interval over scorers.

Both sides are figures, higher is better; row by row, so that thousands of rankings are compared
in one call. Ties are taken into the denominators.

With six to thirty scorers a bootstrap over scorers makes ties that are not there, and a jackknife
gives an interval of width 0 to a perfect ranking. So the interval inverts a test instead. Scorers
are drawn from a population in which the two figures, each on some monotone scale, are jointly
normal with correlation r (a Gaussian copula). For r from -1 to 1 the distribution of the
statistic at n scorers is simulated, with the observed ties and the observed downstream figures:

```
r_low  = inf {r: P_r(S ≥ s) > 0.025},   r_high = sup {r: P_r(S ≤ s) > 0.025}
low = E_{r_low} S,   high = E_{r_high} S
```

It is an interval for E S, the agreement to expect of n scorers drawn like these: for τ-b without
ties that is the population's τ, at any n.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import permutations
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from palate.errors import UsageError
from palate.metrics.arrays import FloatArray, same_length, vector
from palate.metrics.estimates import ROUNDING, TAIL

LEAST_SCORERS = 3


@dataclass(frozen=True, slots=True)
class RankAgreement:
    """One statistic of one ranking against another."""

    statistic: str
    """``kendall`` or ``spearman``."""
    value: float | None
    """None where a side ranks nothing and the statistic needs it to."""
    n: int
    """Scorers."""
    chance: NullDistribution
    """What random rankings get, and the p-value against them."""
    interval: Interval
    """95 % interval for other scorers drawn like these, measured alike."""


def rank_agreement(
    figures: ArrayLike, downstream: ArrayLike, *, seed: int = 0
) -> tuple[RankAgreement, RankAgreement]:
    """Kendall's τ-b and Spearman's ρ of two rankings of n ≥ 3 scorers.

    Args:
        figures: what a benchmark says of each scorer, shape (n,), higher is better.
        downstream: the quality that it should predict, shape (n,).
        seed: of random rankings and of the intervals' draws.

    Raises:
        UsageError: for fewer than three scorers, or a figure that is not finite.

    >>> both = rank_agreement([1, 2, 3, 4, 5, 6], [3, 1, 2, 6, 5, 4])
    >>> [(a.statistic, round(a.value, 3), round(a.chance.p, 3)) for a in both]
    [('kendall', 0.333, 0.469), ('spearman', 0.6, 0.242)]
    """
    x, y = figures_of(figures, downstream)
    return _agreement(KENDALL, x, y, seed), _agreement(SPEARMAN, x, y, seed)


def kendall_agreement(figures: ArrayLike, downstream: ArrayLike, *, seed: int = 0) -> RankAgreement:
    """Kendall's τ-b alone, as `rank_agreement` gives it.

    >>> round(kendall_agreement([1, 2, 3, 4], [1, 2, 4, 3]).value, 3)
    0.667
    """
    return _agreement(KENDALL, *figures_of(figures, downstream), seed)


def _agreement(statistic: RankStatistic, x: FloatArray, y: FloatArray, seed: int) -> RankAgreement:
    return RankAgreement(
        statistic=statistic.name,
        value=None if math.isnan(value := float(statistic(x, y)[0])) else value,
        n=x.size,
        chance=null_distribution(statistic, x, y, seed),
        interval=range_over_scorers(statistic, x, y, seed),
    )


def figures_of(figures: ArrayLike, downstream: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Both columns as vectors, refused as by `rank_agreement` where no ranking can be made."""
    x, y = vector(figures), vector(downstream)
    same_length(figures=x, downstream=y)
    if x.size < LEAST_SCORERS:
        raise UsageError(f"{x.size} scorers; a rank agreement needs at least {LEAST_SCORERS}")
    missing = np.flatnonzero(~np.isfinite(x + y))
    if missing.size:
        raise UsageError(
            f"scorer {int(missing[0])} (counted from 0) has a figure that is not finite; "
            "leave out scorers without both figures"
        )
    return _tied(x), _tied(y)


def _tied(figures: FloatArray) -> FloatArray:
    """Figures that differ by rounding alone are one figure: nothing may be ranked by that."""
    order = np.argsort(figures, kind="stable")
    rising = figures[order]
    size = ROUNDING * np.maximum(1.0, np.abs(rising))
    group = np.concatenate([[0], np.cumsum(~(np.diff(rising) <= size[1:]))])
    tied = np.empty_like(figures)
    _, first = np.unique(group, return_index=True)
    tied[order] = rising[first][group]
    return tied


RowCorrelation = Callable[[FloatArray, FloatArray], FloatArray]

CELLS = 1 << 20


def ranks_of(x: FloatArray, *, axis: int = -1) -> FloatArray:
    """Return ranks from 1 upward, ties by their mean.

    >>> ranks_of(np.array([0.5, 0.1, 0.5])).tolist()
    [2.5, 1.0, 2.5]
    """
    from scipy.stats import rankdata  # slow to import

    return np.asarray(rankdata(x, axis=axis), dtype=np.float64)


@dataclass(frozen=True, slots=True)
class RankStatistic:
    """A rank correlation; its 0 means no agreement."""

    name: Literal["kendall", "spearman"]
    rows: RowCorrelation
    """(m, n) and (m, n) figures to m values; NaN where the statistic is not defined."""

    def __call__(self, x: FloatArray, y: FloatArray) -> FloatArray:
        """Value of each row of ``x`` against the same row of ``y``, in blocks of limited memory.

        Shapes (m, n) or (n,); one row stands for all rows of the other side.
        """
        a, b = np.atleast_2d(x), np.atleast_2d(y)
        step = max(1, CELLS // a.shape[1] ** 2)
        blocks = (
            (side if len(side) == 1 else side[start : start + step] for side in (a, b))
            for start in range(0, max(len(a), len(b)), step)
        )
        return np.concatenate([self.rows(*block) for block in blocks])


def _spearman(x: FloatArray, y: FloatArray) -> FloatArray:
    """ρ: Pearson's correlation of the average ranks."""
    a, b = ranks_of(x, axis=1), ranks_of(y, axis=1)
    a, b = a - a.mean(axis=1, keepdims=True), b - b.mean(axis=1, keepdims=True)
    return _ratio((a * b).sum(axis=1), np.sqrt((a * a).sum(axis=1) * (b * b).sum(axis=1)))


def _kendall(x: FloatArray, y: FloatArray) -> FloatArray:
    """τ-b = Σ a b / √(Σ a² Σ b²) over pairs i < j, a = sgn(x_i - x_j), b = sgn(y_i - y_j)."""
    # Scorer by scorer against all later ones, so that no array of all pairs is made.
    a, b = np.ascontiguousarray(x.T), np.ascontiguousarray(y.T)
    both, own_x, own_y = np.zeros((3, max(len(x), len(y))))
    for i in range(x.shape[1] - 1):
        of_x, of_y = np.sign(a[i] - a[i + 1 :]), np.sign(b[i] - b[i + 1 :])
        both += (of_x * of_y).sum(axis=0)
        own_x += (of_x * of_x).sum(axis=0)
        own_y += (of_y * of_y).sum(axis=0)
    return _ratio(both, np.sqrt(own_x * own_y))


def _ratio(top: FloatArray, bottom: FloatArray) -> FloatArray:
    defined = bottom > 0
    value = np.where(defined, top / np.where(defined, bottom, 1.0), np.nan)
    return np.clip(value, -1.0, 1.0)


KENDALL = RankStatistic("kendall", _kendall)
SPEARMAN = RankStatistic("spearman", _spearman)


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
    statistic: RankStatistic, x: FloatArray, y: FloatArray, seed: int = 0, draws: int = 9_999
) -> NullDistribution:
    """Test a statistic against random rankings: ``y`` fixed, the figures ``x`` in any order.

    Up to 8 scorers all n! orders are tried, ties as they are, and p is the share of them that
    reaches the observed value: ``|s| ≥ |s_obs|``. Beyond, ``p = (1 + hits) / (1 + draws)``. The
    scorers are sorted by their figures first, so that the order in which they are listed cannot
    change p.

    >>> from palate.metrics.ranks import KENDALL
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


FISHER_END = 6.0
STEPS = 12
DRAWS = 2_000


@dataclass(frozen=True, slots=True)
class Interval:
    """A 95 % interval; both ends None where there is none."""

    low: float | None
    high: float | None


class ScorerPopulation:
    """Draws of n scorers from Gaussian copulas, the same random numbers for every r."""

    def __init__(self, x: FloatArray, y: FloatArray, seed: int, draws: int = DRAWS) -> None:
        rng = np.random.default_rng(seed)
        self._x, self._y = np.sort(x), np.sort(y)
        # Sorted, since the observed figures y stand sorted too: the k-th lowest has the k-th.
        self._latent = np.sort(rng.standard_normal((draws, x.size)), axis=1)
        self._noise = rng.standard_normal((draws, x.size))

    def draws(self, r: float) -> tuple[FloatArray, FloatArray]:
        """Figures x by draw, shape (draws, n), and the figures y that they go with, shape (n,)."""
        latent = r * self._latent + math.sqrt(max(0.0, 1 - r * r)) * self._noise
        x = np.empty_like(latent)
        np.put_along_axis(x, np.argsort(latent, axis=1), self._x[None], axis=1)
        return x, self._y


def range_over_scorers(
    statistic: RankStatistic, x: FloatArray, y: FloatArray, seed: int = 0
) -> Interval:
    """Give the 95 % interval of this module, over 2,000 simulated sets of n scorers.

    >>> from palate.metrics.ranks import KENDALL
    >>> six = np.arange(6.0)
    >>> found = range_over_scorers(KENDALL, six, six)
    >>> round(found.low, 1), found.high
    (0.4, 1.0)
    """
    observed = float(statistic(x, y)[0])
    if math.isnan(observed) or not (np.ptp(x) and np.ptp(y)):
        return Interval(None, None)
    population = ScorerPopulation(x, y, seed)

    def values(z: float) -> FloatArray:
        # At the ends of Fisher's scale the order is all but fixed; there it is.
        r = math.copysign(1.0, z) if abs(z) >= FISHER_END else math.tanh(z)
        return statistic(*population.draws(r))

    def end(sign: int) -> float:
        # From perfect agreement (or disagreement) on, the last r that allows the observed value.
        outer, inner = -sign * FISHER_END, sign * FISHER_END

        def possible(z: float) -> bool:
            return float(np.mean(sign * (values(z) - observed) >= -ROUNDING)) > TAIL

        if not possible(outer):
            for _ in range(STEPS):
                middle = (outer + inner) / 2
                outer, inner = (outer, middle) if possible(middle) else (middle, inner)
        return float(values(outer).mean())

    return Interval(min(end(1), observed), max(end(-1), observed))
