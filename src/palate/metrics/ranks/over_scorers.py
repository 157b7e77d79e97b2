"""Interval over scorers: which populations of scorers could have shown this agreement.

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
from dataclasses import dataclass

import numpy as np

from palate.metrics.arrays import FloatArray
from palate.metrics.estimates import ROUNDING, TAIL
from palate.metrics.ranks.statistics import RankStatistic

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

    def __init__(self, x: FloatArray, y: FloatArray, *, seed: int, draws: int = DRAWS) -> None:
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
    statistic: RankStatistic, x: FloatArray, y: FloatArray, *, seed: int = 0
) -> Interval:
    """Give the 95 % interval of this module, over 2,000 simulated sets of n scorers.

    >>> from palate.metrics.ranks.statistics import KENDALL
    >>> six = np.arange(6.0)
    >>> found = range_over_scorers(KENDALL, six, six)
    >>> round(found.low, 1), found.high
    (0.4, 1.0)
    """
    observed = float(statistic(x, y)[0])
    if math.isnan(observed) or not (np.ptp(x) and np.ptp(y)):
        return Interval(None, None)
    population = ScorerPopulation(x, y, seed=seed)

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
