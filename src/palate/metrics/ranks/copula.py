"""Sets of scorers drawn like those at hand, with the figures of two benchmarks and their picks.

All three are jointly normal on some monotone scale (a Gaussian copula), with correlations that
give the three observed τ's: ``r = sin(π τ/2)``.

On mirrored couples the blind are at ½ in every figure, so part of the scorers are *level* with
each other in both benchmarks. They stay so: their figures stand where as many of the others are
below them as observed, their picks are normal with the mean and the spread of the observed ones,
and the correlations of the others are those with which the τ's of all scorers are met on average.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from palate.metrics.arrays import FloatArray
from palate.metrics.ranks.statistics import Statistic

LEAST_LEVEL, LEVEL_SHARE = 3, 0.25
DRAWS = 2_000
CALIBRATION = 500
STEPS = 14
FISHER_END = 7.0
APART = 1e-6

Three = tuple[FloatArray, FloatArray, FloatArray]


@dataclass(frozen=True, slots=True)
class Copula:
    """The population that scorers are drawn from: normal, but for those who are level."""

    correlations: tuple[float, float, float]
    """Of the two benchmarks, and of either with what both should foretell."""
    level: float = 0.0
    """Share of those who are level."""
    at: tuple[float, float] = (0.0, 0.0)
    """Where they stand in either benchmark, on the normal scale."""
    picks: tuple[float, float] = (0.0, 1.0)
    """Mean and standard deviation of what they pick, on that scale."""

    def draw(self, n: int, *, seed: int, draws: int = DRAWS) -> Three:
        """Draw sets of n scorers, each column of shape (draws, n), those who are level last."""
        normal = np.random.default_rng(seed).standard_normal((draws, n, 3))
        r12, r1, r2 = self.correlations
        matrix = np.array([[1, r12, r1], [r12, 1, r2], [r1, r2, 1]])
        # Three sample τ's need not belong to any joint distribution: the nearest one is taken.
        values, vectors = np.linalg.eigh(matrix)
        drawn = normal @ (vectors * np.sqrt(np.clip(values, 0, None))).T
        last = slice(n - round(self.level * n), None)
        drawn[:, last, :2] = self.at
        drawn[:, last, 2] = self.picks[0] + self.picks[1] * normal[:, last, 2]
        return drawn[..., 0], drawn[..., 1], drawn[..., 2]


def fit_copula(
    x1: FloatArray, x2: FloatArray, y: FloatArray, kendall: Statistic, *, seed: int
) -> Copula | None:
    """Return the population that scorers like these are drawn from; None where a τ is undefined.

    Args:
        x1: figures of the one benchmark, shape (n,).
        x2: figures of the other.
        y: what both should foretell.
        kendall: τ-b.
        seed: of the draws by which correlations are found.
    """
    taus = [float(kendall(a, b)[0]) for a, b in ((x1, x2), (x1, y), (x2, y))]
    if any(math.isnan(tau) for tau in taus):
        return None
    r12, r1, r2 = (math.sin(math.pi * tau / 2) for tau in taus)
    level = level_in_both(x1, x2)
    if not level.any():
        return Copula((r12, r1, r2))
    one, other, picks = (_standings(figures, level) for figures in (x1, x2, y))
    # All in one gap between the others, they are still told apart.
    spread = max(float(picks.std(ddof=1)), APART if np.ptp(y[level]) else 0.0)
    blank = Copula(
        (0.0, 0.0, 0.0), float(level.mean()), (float(one[0]), float(other[0])),
        (float(picks.mean()), spread),
    )  # fmt: skip
    met = [
        _where_met(tau, blank, column, kendall, n=y.size, seed=seed)
        for column, tau in enumerate(taus)
    ]
    return replace(blank, correlations=(met[0], met[1], met[2]))


def _where_met(
    tau: float, blank: Copula, which: int, kendall: Statistic, *, n: int, seed: int
) -> float:
    """The correlation at which the mean τ of sets of n scorers, which rises with it, is `tau`."""
    i, j = ((0, 1), (0, 2), (1, 2))[which]
    low, high = -FISHER_END, FISHER_END
    for _ in range(STEPS):
        middle = (low + high) / 2
        r = [0.0, 0.0, 0.0]
        r[which] = math.tanh(middle)
        columns = replace(blank, correlations=(r[0], r[1], r[2])).draw(
            n, seed=seed, draws=CALIBRATION
        )
        below = float(np.nanmean(kendall(columns[i], columns[j]))) < tau
        low, high = (middle, high) if below else (low, middle)
    return math.tanh((low + high) / 2)


def level_in_both(x1: FloatArray, x2: FloatArray) -> NDArray[np.bool_]:
    """Who is level with each other in both benchmarks: the one largest set, if not a small one.

    Not small: three scorers at least, and a quarter of all.

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


def _standings(figures: FloatArray, level: NDArray[np.bool_]) -> FloatArray:
    """Where those who are level stand among the others, on the normal scale."""
    own, others = figures[level], figures[~level]
    below = np.mean((1 + np.sign(own[:, None] - others)) / 2, axis=1)
    edge = 0.5 / others.size
    standings: FloatArray = ndtri(np.clip(below, edge, 1 - edge))
    return standings
