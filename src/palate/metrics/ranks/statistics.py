"""Kendall's τ-b and Spearman's ρ of two rankings of the same scorers.

Both sides are figures, higher is better; row by row, so that thousands of rankings are compared
in one call. Ties are taken into the denominators.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from palate.metrics.arrays import FloatArray

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
