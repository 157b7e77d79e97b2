"""Policy accuracy: whether a steered policy makes the chosen response the more probable one.

A policy p is steered by a reward at a weight w. Its score S_w of a response is `tilt`,
``log p(y) + w R(y)``, or `decoder`, ``Σ_t log π_w(y_t | y_<t)``; each is read as the sum, the mean
per token or the ratio ``S_w − S_0``. Weight ∞ is the limit of the order, as is weight 0 of the
ratio. Arrays hold responses in any shape, NaN where one is unscored.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from palate.errors import UsageError
from palate.metrics.arrays import FloatArray, IntArray
from palate.metrics.estimates import ROUNDING

Reading = Literal["sum", "mean", "ratio"]
READINGS: tuple[Reading, ...] = ("sum", "mean", "ratio")
INFINITE = float("inf")
NAMES = ("base", "tokens", "slope", "limit", "ties", "reward", "misses")


@dataclass(frozen=True, eq=False)
class PolicyScores:
    """What is known of every response, from which all weights and readings follow."""

    base: FloatArray
    """S_0: log-probability under the policy without the reward."""
    tokens: FloatArray
    """How many tokens the response has, its first end token included."""
    slope: FloatArray
    """``lim (S_w − S_0)/w`` as w falls to 0."""
    limit: FloatArray
    """``lim S_w/w`` as w grows: what orders responses at weight ∞."""
    ties: FloatArray
    """``lim S_w − w·limit``: what orders responses of equal `limit`."""
    reward: FloatArray
    """R: the reward of the response."""
    weighted: Mapping[float, FloatArray] | None = None
    """S_w by weight; None of tilt, where it is ``base + w·slope``."""
    misses: FloatArray | None = None
    """Tokens outside the policy's candidate sets; None where all tokens are candidates."""

    @classmethod
    def tilt(cls, base: ArrayLike, reward: ArrayLike, tokens: ArrayLike) -> Self:
        """Return the scores ``log p(y) + w R(y)``; all three are NaN where one is.

        >>> scores = PolicyScores.tilt([-9.0, -8.0], [1.0, 0.0], [3, 4])
        >>> scores.at(2, "sum").tolist(), scores.at(2, "ratio").tolist()
        ([-7.0, -8.0], [2.0, 0.0])
        """
        p, r, n = (np.asarray(column, np.float64) for column in (base, reward, tokens))
        unscored = np.isnan(p) | np.isnan(r) | np.isnan(n)
        p, r, n = (np.where(unscored, np.nan, column) for column in (p, r, n))
        return cls(base=p, tokens=n, slope=r, limit=r, ties=p, reward=r)

    @classmethod
    def stacked(cls, scores: Sequence[Self]) -> Self:
        """Return several scores of one shape as one, along a first axis."""
        return scores[0].map(lambda *columns: np.stack(columns), *scores[1:])

    def map(self, change: Callable[..., FloatArray], *others: Self) -> Self:
        """Return the scores with every array changed, beside the same array of other scores."""
        every = (self, *others)
        columns: dict[str, Any] = {
            name: change(*(getattr(scores, name) for scores in every))
            for name in NAMES
            if getattr(self, name) is not None
        }
        if self.weighted:
            columns["weighted"] = {
                weight: change(*((scores.weighted or {})[weight] for scores in every))
                for weight in self.weighted
            }
        return replace(self, **columns)

    def at(self, weight: float, reading: Reading) -> FloatArray:
        """Return the scores at a weight; at ∞ and, of the ratio, at 0 those of the limit."""
        if weight == INFINITE:
            scores = self.limit
        elif weight == 0:
            scores = self.slope if reading == "ratio" else self.base
        elif self.weighted is None:
            scores = weight * self.slope if reading == "ratio" else self.base + weight * self.slope
        else:
            whole = self.weighted[weight]
            scores = whole - self.base if reading == "ratio" else whole
        return scores / self.tokens if reading == "mean" else scores

    def values(self, weight: float, reading: Reading) -> FloatArray:
        """Return 1, ½ or 0 where the first of each two responses scores higher, as high, lower.

        The last axis holds the two; NaN where one is unscored. Equal in float32 is a tie, and at
        weight ∞ sum and mean break it by the second term of the limit.
        """
        order = _order(self.at(weight, reading))
        if weight == INFINITE and reading != "ratio":
            ties = self.ties / self.tokens if reading == "mean" else self.ties
            order = np.where(order == 0, _order(ties), order)
        return 0.5 + order / 2


def ranked(scores: PolicyScores, weight: float, reading: Reading) -> FloatArray:
    """Return one number per response that orders them as `PolicyScores.values` does any two.

    At weight ∞ responses of equal limit stand apart by the smallest steps of float32.
    """
    values = scores.at(weight, reading)
    if weight != INFINITE or reading == "ratio":
        return values
    single = values.astype(np.float32)
    ties = (scores.ties / scores.tokens if reading == "mean" else scores.ties).astype(np.float32)
    apart = single.copy()
    for a, b in pairwise(np.lexsort((ties, single)).tolist()):  # NaN last
        if (single[a], ties[a]) == (single[b], ties[b]):
            apart[b] = apart[a]
        elif apart[b] <= apart[a]:
            apart[b] = np.nextafter(apart[a], np.float32(np.inf))
    return apart.astype(np.float64)


def relative_unit(base: ArrayLike, reward: ArrayLike) -> float:
    """Return the w of relative weight 1: ``rms(base margins) / rms(reward margins)``.

    Both hold two responses on the last axis; pairs with a NaN are left out.

    Raises `UsageError` where no pair is left or either margin is always 0.

    >>> relative_unit([[3.0, 0.0], [0.0, 4.0]], [[0.75, 0.0], [0.0, 1.0]])
    4.0
    """
    margins = [
        np.subtract(*np.moveaxis(np.asarray(scores, np.float64), -1, 0))
        for scores in (base, reward)
    ]
    scored = ~np.isnan(margins[0] + margins[1])
    if not scored.any():
        raise UsageError("relative weights: no pair that could set the unit has both scores")
    # Summed exactly, so that the order of the pairs changes nothing.
    squares = [np.square(margin[scored]) for margin in margins]
    roots = [math.sqrt(math.fsum(column) / column.size) for column in squares]
    if not min(roots) > 0:
        what = "the policy" if roots[0] == 0 else "the reward"
        raise UsageError(f"relative weights: {what} has no margin on the pairs that set the unit")
    return roots[0] / roots[1]


def best_weight(accuracies: Sequence[float], weights: Sequence[float]) -> int:
    """Return which weight has the largest accuracy; of several, the smallest weight.

    >>> best_weight([0.5, 0.7, 0.7], [0, 4, 1])
    2
    """
    # Means over strangers' draws are equal up to rounding.
    best = max(accuracies) - ROUNDING
    return min((k for k, a in enumerate(accuracies) if a >= best), key=lambda k: weights[k])


def cross_fitted(values: FloatArray, folds: IntArray, weights: Sequence[float]) -> IntArray:
    """Return, for each row, the weight that is best on the scored rows of the other folds.

    ``values`` are 1, ½ or 0 by row and weight. Where no other fold has a scored row it is the
    smallest weight.

    >>> values = np.array([[0.0, 1.0], [0.0, 1.0], [1.0, 0.0]])
    >>> cross_fitted(values, np.array([0, 1, 2]), [0, 1]).tolist()
    [0, 0, 1]
    """
    smallest = int(np.argmin(weights))
    chosen = np.full(len(values), smallest, dtype=np.int64)
    for fold in np.unique(folds).tolist():
        rest = values[(folds != fold) & ~np.isnan(values).any(axis=1)]
        if len(rest):
            chosen[folds == fold] = best_weight(rest.mean(axis=0).tolist(), weights)
    return chosen


def _order(scores: FloatArray) -> FloatArray:
    with np.errstate(over="ignore"):
        single = scores.astype(np.float32)
    first, second = np.moveaxis(single, -1, 0)
    greater = np.sign(np.subtract(first, second, dtype=np.float64))
    return np.where(np.isnan(scores).any(axis=-1), np.nan, greater)
