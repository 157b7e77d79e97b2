"""Five ways to say how alike two rankings of the same scorers are.

Both sides are figures, higher is better; row by row, so that thousands of rankings are compared
in one call. ``x`` is the ranking under test (a benchmark), ``y`` the one it should predict
(downstream quality); only NDCG tells the two apart. No value is above 1, nor below -1 (RBO and
NDCG: 0).

Ties: τ-b, ρ and the weighted τ take them into their denominators. RBO and NDCG are the mean over
all ways to break them, each equally likely and the two sides independent of each other, so that a
benchmark that ranks nothing gets what chance gets. Without ties all five are 1 for equal rankings.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal, get_args

import numpy as np

from palate.errors import UsageError
from palate.metrics.arrays import FloatArray

Rows = Callable[[FloatArray, FloatArray], FloatArray]
Gain = Literal["shifted", "rank", "exponential"]
GAINS = get_args(Gain)

Method = Literal["average", "min", "max"]

RBO_P = 0.9
CELLS = 1 << 20


def ranks_of(x: FloatArray, *, method: Method = "average", axis: int = -1) -> FloatArray:
    """Return ranks from 1 upward, ties by their mean, lowest or highest.

    >>> ranks_of(np.array([0.5, 0.1, 0.5])).tolist()
    [2.5, 1.0, 2.5]
    """
    from scipy.stats import rankdata  # slow to import

    return np.asarray(rankdata(x, method=method, axis=axis), dtype=np.float64)


@dataclass(frozen=True, slots=True)
class RankStatistic:
    """A rank statistic with what is needed to test it."""

    name: str
    """``kendall``, ``spearman``, ``weighted``, ``rbo`` or ``ndcg``."""
    rows: Rows
    """(m, n) and (m, n) figures to m values; NaN where the statistic is not defined."""
    two_sided: bool
    """True for correlations, whose 0 means no agreement; RBO and NDCG are tested upward."""
    setting: str | None = None
    """What a table must state beside the name."""

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


def statistics(*, rbo_p: float = RBO_P, gain: Gain = "shifted") -> tuple[RankStatistic, ...]:
    """Return the five statistics: Kendall's τ-b, Spearman's ρ, weighted τ, RBO, NDCG.

    Raises `UsageError` for ``rbo_p`` outside of (0, 1) or an unknown gain.

    >>> [s.name for s in statistics()]
    ['kendall', 'spearman', 'weighted', 'rbo', 'ndcg']
    """
    if not 0 < rbo_p < 1:
        raise UsageError(f"the p of RBO must be in (0, 1), got {rbo_p:g}")
    if gain not in GAINS:
        raise UsageError(f"no NDCG gain is called {gain!r}; known: {', '.join(GAINS)}")
    return (
        KENDALL,
        RankStatistic("spearman", _spearman, True),
        RankStatistic("weighted", _weighted, True, "1/(rank + 1), both rankings' mean"),
        RankStatistic("rbo", partial(_rbo, p=rbo_p), False, f"p = {rbo_p:g}, extrapolated"),
        RankStatistic("ndcg", partial(_ndcg, gain=gain), False, f"gain {gain}, all ranks"),
    )


def _spearman(x: FloatArray, y: FloatArray) -> FloatArray:
    """ρ: Pearson's correlation of the average ranks."""
    a, b = ranks_of(x, axis=1), ranks_of(y, axis=1)
    a, b = a - a.mean(axis=1, keepdims=True), b - b.mean(axis=1, keepdims=True)
    return _ratio((a * b).sum(axis=1), np.sqrt((a * a).sum(axis=1) * (b * b).sum(axis=1)))


def _weighted(x: FloatArray, y: FloatArray) -> FloatArray:
    """Vigna's additive hyperbolic τ, the mean of the two that rank by x and by y.

    ``Σ (w_i + w_j) a b / √(Σ (w_i + w_j) a² · Σ (w_i + w_j) b²)``, ``w = 1/(r + 1)`` for rank
    r = 0, 1, … from the top of the one ranking, its ties in the order of the other.
    """
    x, y = np.broadcast_arrays(x, y)
    halves = []
    for first, second in ((x, y), (y, x)):
        order = np.lexsort((-second, -first), axis=1)
        weights = np.empty(x.shape)
        np.put_along_axis(weights, order, 1 / np.arange(1.0, x.shape[1] + 1)[None], axis=1)
        halves.append(_kendall(x, y, weights))
    return (halves[0] + halves[1]) / 2


def _rbo(x: FloatArray, y: FloatArray, p: float) -> FloatArray:
    """RBO_ext = A_n pⁿ + ((1 - p)/p) Σ_d A_d pᵈ, with A_d = Σ_i P_x(i, d) P_y(i, d) / d.

    Webber, Moffat and Zobel (2010), equation 32 for two rankings of the same n scorers; P(i, d)
    is the chance that i stands in the first d once ties are broken.
    """
    n = x.shape[1]
    depth = np.arange(1.0, n + 1)
    agreement = (_in_first(x) * _in_first(y)).sum(axis=1) / depth
    # Rounding must not carry a perfect agreement past 1.
    value: FloatArray = np.minimum(1.0, p**n + (1 - p) / p * (agreement @ p**depth))
    return value


def _ndcg(x: FloatArray, y: FloatArray, gain: Gain) -> FloatArray:
    """DCG of the ranking by x over that of the ranking by y, discount 1 / log2(rank + 1).

    Gains: ``shifted`` y - min y; ``rank`` 0 for the lowest to n - 1; ``exponential`` 2^rank - 1.
    """
    n = x.shape[1]
    if gain == "shifted":
        gains = y - y.min(axis=1, keepdims=True)
    else:
        gains = ranks_of(y, axis=1) - 1
        # Halved n - 1 times, so that hundreds of ranks do not overflow; the ratio is the same.
        gains = gains if gain == "rank" else np.exp2(gains - (n - 1)) - np.exp2(-(n - 1.0))
    discount = 1 / np.log2(np.arange(2.0, n + 2))
    summed = np.concatenate([[0.0], np.cumsum(discount)])
    above, upto = _places(x)
    expected = (summed[upto] - summed[above]) / (upto - above)
    best = np.sort(gains, axis=1)[:, ::-1] @ discount
    return _ratio((gains * expected).sum(axis=1), best)


def _kendall(x: FloatArray, y: FloatArray, weights: FloatArray | None = None) -> FloatArray:
    """τ-b = Σ a b / √(Σ a² Σ b²) over pairs i < j, a = sgn(x_i - x_j), b = sgn(y_i - y_j).

    With weights, each sum's terms weigh w_i + w_j.
    """
    # Scorer by scorer against all later ones, so that no array of all pairs is made.
    a, b = np.ascontiguousarray(x.T), np.ascontiguousarray(y.T)
    w = None if weights is None else np.ascontiguousarray(weights.T)
    both, own_x, own_y = np.zeros((3, max(len(x), len(y))))
    for i in range(x.shape[1] - 1):
        of_x, of_y = np.sign(a[i] - a[i + 1 :]), np.sign(b[i] - b[i + 1 :])
        pair_x = of_x if w is None else of_x * (w[i] + w[i + 1 :])
        pair_y = of_y if w is None else of_y * (w[i] + w[i + 1 :])
        both += (pair_x * of_y).sum(axis=0)
        own_x += (pair_x * of_x).sum(axis=0)
        own_y += (pair_y * of_y).sum(axis=0)
    return _ratio(both, np.sqrt(own_x * own_y))


def _places(x: FloatArray) -> tuple[np.typing.NDArray[np.int64], np.typing.NDArray[np.int64]]:
    # How many stand strictly above each scorer, and that plus those who tie with it.
    above = ranks_of(-x, method="min", axis=1).astype(np.int64) - 1
    return above, ranks_of(-x, method="max", axis=1).astype(np.int64)


def _in_first(x: FloatArray) -> FloatArray:
    # (m, n, depth): the chance of each scorer to stand in the first 1 … n.
    above, upto = _places(x)
    depth = np.arange(1.0, x.shape[1] + 1)
    share = (depth - above[:, :, None]) / (upto - above)[:, :, None]
    return np.clip(share, 0.0, 1.0)


def _ratio(top: FloatArray, bottom: FloatArray) -> FloatArray:
    defined = bottom > 0
    value = np.where(defined, top / np.where(defined, bottom, 1.0), np.nan)
    return np.clip(value, -1.0, 1.0)


KENDALL = RankStatistic("kendall", _kendall, True)
