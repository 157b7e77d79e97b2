"""The curve of best-of-k over k, with what the best possible scorer and chance would get.

All points of a curve rest on the same questions: those with at least max(ks) usable samples.
Otherwise the curve could rise or fall by losing questions. Those left out are counted; ask for
smaller ks to keep more of them. Intervals and tests are by user, over rows; where users share
questions, by user and question; where gold sets a user against their mirror, over couples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from palate.metrics.arrays import FloatArray, Ids, IntArray, same_length
from palate.metrics.clusters import Clusters
from palate.metrics.estimates import ROUNDING, UNIT, Estimate, interval
from palate.metrics.jackknife import jackknife, ratio
from palate.metrics.means import Bounds
from palate.metrics.selection.best_of import best_of, kl_bound, samples, sizes, usable
from palate.metrics.selection.figures import level, moved_by
from palate.metrics.selection.units import Units

UNBOUNDED_BY = 1e3


@dataclass(frozen=True, slots=True)
class BestOfPoint:
    """One k of a curve."""

    k: int
    reliable: bool
    """True up to half the samples of the poorest question; beyond, subsets overlap so much that
    the value rests on few independent ones (at k = N on one): draw it dashed."""
    best: Estimate
    """Gold value of the scorer's pick; no p."""
    oracle: Estimate
    """Gold value of the best of k by gold itself; no p."""
    gain: Estimate
    """``best`` minus the mean sample, paired; p by sign flips of the users' sums, or where rows of
    two users depend on each other by the t of the interval."""
    oracle_share: Estimate
    """Share of the oracle's gain that the scorer's is, ``Σ_q (E_k - E_1) / Σ_q (O_k - E_1)``;
    None where the oracle gains nothing, as at k = 1."""
    kl_bound: float


@dataclass(frozen=True, slots=True)
class BestOfCurve:
    """A scorer's curve with its counts."""

    points: tuple[BestOfPoint, ...]
    """By rising k."""
    random: Estimate
    """One sample drawn blindly: the mean gold value, the same at every k."""
    n_questions: int
    """Questions under the curve."""
    n_left_out: int
    """Questions with fewer than max(ks) usable samples."""
    n_samples: int
    """Samples of all questions, usable or not."""
    n_unscored: int
    """Samples without a score."""
    n_without_gold: int
    """Samples without a gold value."""


def best_of_curve(
    scores: ArrayLike,
    gold: ArrayLike,
    users: Ids,
    ks: Sequence[int],
    *,
    questions: Ids | None = None,
    mirrors: Sequence[int] | IntArray | None = None,
    bounds: Bounds | None = UNIT,
    seed: int = 0,
) -> BestOfCurve:
    """Curve of the gold value of the best of k samples, with jackknife intervals.

    ``scores``, ``gold`` and ``ks`` are those of `best_of`. Rows of one question, and so maybe of
    one set of samples, are not independent even where their users differ; without ``questions`` no
    two users share one. Where gold is a contrast, ``mirrors`` holds the number of each row's
    mirrored row: figures are then over couples, each the mean of its two rows, and ``n`` of an
    estimate counts couples. Intervals are clipped to ``bounds``, the range of the gold values; None
    is for a scale without ends, as a reward model's.

    Raises `UsageError` for a k that is not in 1 … N, `ValueError` for mirrors that are not each
    other's.

    >>> c = best_of_curve([[1, 2, 3, 4]] * 3, [[0, 1, 0, 1]] * 3, ["a", "b", "c"], [1, 2])
    >>> c.random.value, [round(p.best.value, 3) for p in c.points], c.points[1].reliable
    (0.5, [0.5, 0.667], True)
    >>> round(c.points[1].oracle.value, 3), round(c.points[1].oracle_share.value, 3)
    (0.833, 0.5)
    """
    s, g = samples(scores, gold)
    same_length(gold=g, users=users)
    wanted = sorted(set(sizes(ks, s.shape[1])))
    lo, hi = _gold_range(g, bounds)
    counts = usable(s, g)
    scored_gold = np.where(np.isnan(s), np.nan, g)
    units = Units.of(users, questions, counts >= wanted[-1], mirrors)
    clusters = units.clusters
    best, oracle, worst, (single,) = (
        units.values(best_of(by, scored_gold, at)).T
        for by, at in ((s, wanted), (scored_gold, wanted), (-scored_gold, wanted), (s, [1]))
    )
    least = int(counts[units.usable].min()) if units.usable.any() else 0
    points = [
        BestOfPoint(
            k=k,
            reliable=2 * k <= least,
            best=level(picked, clusters, (lo, hi)),
            oracle=level(top, clusters, (lo, hi)),
            gain=moved_by(picked - single, clusters, hi - lo, seed),
            oracle_share=_oracle_share(picked - single, top - single, bottom - single, clusters),
            kl_bound=kl_bound(k),
        )
        for k, picked, top, bottom in zip(wanted, best, oracle, worst, strict=True)
    ]
    return BestOfCurve(
        points=tuple(points),
        random=level(single, clusters, (lo, hi)),
        n_questions=int(units.usable.sum()),
        n_left_out=int((~units.usable).sum()),
        n_samples=s.size,
        n_unscored=int(np.isnan(s).sum()),
        n_without_gold=int(np.isnan(g).sum()),
    )


def _gold_range(gold: FloatArray, bounds: Bounds | None) -> Bounds:
    """The bounds, or for None such as nothing reaches."""
    known = gold[~np.isnan(gold)]
    if bounds is None:
        # So wide that nothing is ever clipped, and of the size of the values.
        size = max(1.0, float(np.abs(known).max())) if known.size else 1.0
        return -UNBOUNDED_BY * size, UNBOUNDED_BY * size
    lo, hi = bounds
    if not lo < hi or bool(np.any((known < lo) | (known > hi))):
        raise ValueError(f"expected gold values in [{lo:g}, {hi:g}]; give the scale's own bounds")
    return lo, hi


def _oracle_share(
    gained: FloatArray, room: FloatArray, depth: FloatArray, clusters: Clusters
) -> Estimate:
    """Ratio of sums; a row weighs its share of the room.

    It cannot be over 1, nor under what picking the worst would get.
    """
    n, units = gained.size, clusters.n_users if gained.size else 0
    total = float(room.sum())
    if not total > ROUNDING * max(1.0, float(np.abs(room).max(initial=0.0))):
        return Estimate(n=n, n_units=units)
    value = float(gained.sum()) / total
    constant = bool(np.abs(gained - value * room).max() <= ROUNDING * total)
    spread = jackknife(ratio(gained, room), room, clusters, constant=constant)
    lowest = min(0.0, float(depth.sum()) / total)
    value = min(1.0, max(lowest, value))
    return interval(value, spread, n=n, n_units=units, null=0.0, bounds=(lowest, 1.0))
