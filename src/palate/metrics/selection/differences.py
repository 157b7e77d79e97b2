"""Two scorers on the same samples, at every k."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from palate.metrics.arrays import Ids, IntArray, same_length
from palate.metrics.estimates import UNIT, Estimate
from palate.metrics.selection.best_of import best_of, samples, sizes, usable
from palate.metrics.selection.clusters import Clusters
from palate.metrics.selection.curves import Bounds, gold_range, moved_by


@dataclass(frozen=True, slots=True)
class BestOfDifference:
    """One k of the difference between two scorers on the same samples."""

    k: int
    solid: bool
    difference: Estimate
    """Gold value of the first's pick minus that of the second's; p as of a curve's gain."""


def best_of_differences(
    first: ArrayLike,
    second: ArrayLike,
    gold: ArrayLike,
    users: Ids,
    ks: Sequence[int],
    *,
    questions: Ids | None = None,
    mirrors: Sequence[int] | IntArray | None = None,
    bounds: Bounds | None = UNIT,
    seed: int = 0,
) -> tuple[BestOfDifference, ...]:
    """Difference of two scorers at each k, paired by question on the same samples.

    Only samples that both scored count, for both, so that neither gains by what it left unscored;
    only questions with max(ks) of them.

    Args:
        first: scores of the one, shape (questions, N).
        second: scores of the other on the same samples.
        gold: quality of each sample, same shape.
        users: the user of each question.
        ks: sizes, each in 1 … N.
        questions: what each row asks, as in `best_of_curve`.
        mirrors: of each row, where gold is a contrast, as there.
        bounds: range of the gold values, or None.
        seed: of the sign flips.

    Raises:
        UsageError: for a k that is not in 1 … N.
        ValueError: for unequal shapes, an infinite value or one out of bounds.

    Example:
        >>> gold = [[0, 1, 0.5], [1, 0, 0.2], [0.3, 0.6, 0]]
        >>> d = best_of_differences(gold, [[0, 0, 0]] * 3, gold, ["a", "b", "c"], [1, 3])
        >>> [round(one.difference.value, 3) for one in d]
        [0.0, 0.467]
    """
    a, g = samples(first, gold)
    b, _ = samples(second, gold)
    same_length(gold=g, users=users)
    wanted = sorted(set(sizes(ks, a.shape[1])))
    lo, hi = gold_range(g, bounds)
    g = np.where(np.isnan(a + b), np.nan, g)
    counts = usable(a, g)
    of_kept = Clusters.of(users, questions, counts >= wanted[-1], mirrors)
    least = int(counts[of_kept.kept].min()) if of_kept.kept.any() else 0
    moved = of_kept.of_units(best_of(a, g, wanted) - best_of(b, g, wanted))
    return tuple(
        BestOfDifference(k, 2 * k <= least, moved_by(moved[:, i], of_kept, hi - lo, seed))
        for i, k in enumerate(wanted)
    )
