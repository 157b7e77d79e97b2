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
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from palate.metrics.arrays import FloatArray
from palate.metrics.ranks.statistics import Statistic

LEAST_LEVEL, LEVEL_SHARE = 3, 0.25
DRAWS = 2_000
CALIBRATION = 500
STEPS = 10
R_END = 0.999
PICKS = 2

Three = tuple[FloatArray, FloatArray, FloatArray]


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


def drawn_alike(
    x1: FloatArray, x2: FloatArray, y: FloatArray, kendall: Statistic, *, seed: int
) -> Three | None:
    """Draw sets of n scorers, each column of shape (draws, n); None where a τ is not defined.

    Args:
        x1: figures of the one benchmark, shape (n,).
        x2: figures of the other.
        y: what both should foretell.
        kendall: τ-b.
        seed: of the draws.
    """
    taus = [float(kendall(a, b)[0]) for a, b in ((x1, x2), (x1, y), (x2, y))]
    if any(math.isnan(tau) for tau in taus):
        return None
    normal = np.random.default_rng(seed).standard_normal((DRAWS, y.size, 3))
    level = level_in_both(x1, x2)
    if not level.any():
        return _joint(normal, [math.sin(math.pi * tau / 2) for tau in taus])
    picks = _standings(y, level)
    normal[:, y.size - picks.size :, PICKS] *= picks.std(ddof=1)
    normal[:, y.size - picks.size :, PICKS] += picks.mean()
    known = _Level(normal, (_standings(x1, level), _standings(x2, level)))
    correlations = [
        _where_met(tau, partial(known.mean_tau, kendall, i, j))
        for tau, (i, j) in zip(taus, ((0, 1), (0, 2), (1, 2)), strict=True)
    ]
    one, other, downstream = _joint(normal, correlations)
    return known.put(one, 0), known.put(other, 1), known.put(downstream, PICKS)


class _Level(NamedTuple):
    """Normal draws, shape (draws, n, 3), of which the last scorers are those who are level."""

    normal: FloatArray
    at: tuple[FloatArray, FloatArray]
    """Where they stand in either benchmark, on the normal scale."""

    def put(self, drawn: FloatArray, column: int) -> FloatArray:
        mixed = drawn.copy()
        last = slice(drawn.shape[1] - self.at[0].size, None)
        own = self.normal[: len(drawn), last, PICKS]
        mixed[:, last] = own if column == PICKS else self.at[column]
        return mixed

    def mean_tau(self, kendall: Statistic, i: int, j: int, r: float) -> float:
        first, own = self.normal[:CALIBRATION, :, i], self.normal[:CALIBRATION, :, j]
        second = r * first + math.sqrt(1 - r * r) * own
        return float(np.nanmean(kendall(self.put(first, i), self.put(second, j))))


def _standings(figures: FloatArray, level: NDArray[np.bool_]) -> FloatArray:
    """Where those who are level stand among the others, on the normal scale."""
    own, others = figures[level], figures[~level]
    below = np.mean((1 + np.sign(own[:, None] - others)) / 2, axis=1)
    edge = 0.5 / others.size
    standings: FloatArray = ndtri(np.clip(below, edge, 1 - edge))
    return standings


def _where_met(tau: float, mean_tau: Callable[[float], float]) -> float:
    """The correlation at which the mean τ, which rises with it, is the observed one."""
    low, high = -R_END, R_END
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if mean_tau(middle) < tau else (low, middle)
    return (low + high) / 2


def _joint(normal: FloatArray, correlations: list[float]) -> Three:
    r12, r1, r2 = correlations
    matrix = np.array([[1, r12, r1], [r12, 1, r2], [r1, r2, 1]])
    # Three sample τ's need not belong to any joint distribution: the nearest one is taken.
    values, vectors = np.linalg.eigh(matrix)
    drawn = normal @ (vectors * np.sqrt(np.clip(values, 1e-6, None))).T
    return drawn[..., 0], drawn[..., 1], drawn[..., 2]
