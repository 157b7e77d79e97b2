"""Best of k samples: what a scorer's picks are worth, from one set of N samples a question.

For one question with n usable samples, ranked 1 … n upward by their score:

```
E_k = Σ_j w_j g_j,   w_j = C(j - 1, k - 1) / C(n, k)
```

where samples of equal score share the mean of their gold values: a tie for the highest score of
a subset is broken uniformly. A U-statistic, so unbiased for the best of k fresh samples.

All points of a curve rest on the same questions: those with at least max(ks) usable samples.
Otherwise the curve could rise or fall by losing questions. Those left out are counted; ask for
smaller ks to keep more of them. Intervals and tests are by user, over rows; where users share
questions, by user and question; where gold sets a user against their mirror, over couples.

Where picking by a scorer stops helping, `over_optimisation` reads off Gao, Schulman and Hilton's
curve of best-of-n (arXiv 2210.10760, section 3). With d = √(log k - (k - 1)/k), the gold value
gained over one sample is fitted by least squares:

```
R(d) = d (α - β d)         peak at d* = α / (2β),  R(d*) = α² / (4β)
```

The fit is linear in the gains, so α and β are means over rows of numbers per row, and have the
jackknife interval of a curve's gain.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from palate.errors import UsageError
from palate.metrics.arrays import FloatArray, Ids, IntArray, same_length
from palate.metrics.clusters import Clusters, jackknife, ratio
from palate.metrics.estimates import ROUNDING, UNIT, Bounds, Estimate, interval
from palate.metrics.means import Units, clustered_mean, level, moved_by, unbounded


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
    used = np.concatenate(units.rows)
    least = int(counts[used].min()) if used.size else 0
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
        n_questions=used.size,
        n_left_out=len(s) - used.size,
        n_samples=s.size,
        n_unscored=int(np.isnan(s).sum()),
        n_without_gold=int(np.isnan(g).sum()),
    )


def best_of(scores: ArrayLike, gold: ArrayLike, ks: Sequence[int]) -> FloatArray:
    """Value of each question at each k, shape (questions, len(ks)).

    A sample counts where it has both a score and a gold value; the others are left out as if
    they had not been drawn. So the value is that of the best of k *usable* samples, and it is NaN
    where a question has fewer than k of them (``usable`` counts them).

    Scores are compared as they come: give float32 scores where float32 ties should be ties. Only
    their order is read. O(questions · N · max k) time, O(questions · N) memory.

    ``scores`` and ``gold``, the quality of each sample, have shape (questions, N); NaN where there
    is none. Raises `UsageError` for a k that is not in 1 … N.

    >>> best_of([[3, 1, 2, 2]], [[1.0, 0.0, 0.4, 0.8]], [1, 2, 4]).round(3).tolist()
    [[0.55, 0.8, 1.0]]
    """
    s, g = samples(scores, gold)
    wanted = sizes(ks, s.shape[1])
    values = np.full((len(s), len(wanted)), np.nan)
    counts = usable(s, g)
    for n in np.unique(counts[counts > 0]).tolist():
        rows = np.flatnonzero(counts == n)
        ranked = _in_score_order(s[rows], g[rows], n)
        for k, weights in _weights(n, min(n, max(wanted))):
            for column in np.flatnonzero(np.equal(wanted, k)).tolist():
                values[rows, column] = ranked[:, n - weights.size :] @ weights
    return values


def usable(scores: ArrayLike, gold: ArrayLike) -> IntArray:
    """Samples of each question that have both a score and a gold value, shape (questions,).

    >>> usable([[1, None, 2]], [[0.5, 0.5, None]]).tolist()
    [1]
    """
    s, g = samples(scores, gold)
    return np.asarray((~np.isnan(s + g)).sum(axis=1), dtype=np.int64)


def kl_bound(k: float) -> float:
    """Upper bound of KL(best of k ‖ policy) in nats: ``log k - (k - 1)/k``.

    An equality only where no two samples are equal and no scores tie (Beirami et al. 2024).

    Raises `UsageError` for k below 1.

    >>> [round(kl_bound(k), 3) for k in (1, 2, 4, 16, 128)]
    [0.0, 0.193, 0.636, 1.835, 3.86]
    """
    if not k >= 1:
        raise UsageError(f"best of {k:g}: k must be at least 1")
    return math.log(k) - (k - 1) / k


def _gold_range(gold: FloatArray, bounds: Bounds | None) -> Bounds:
    """The bounds, or for None such as nothing reaches."""
    if bounds is None:
        return -unbounded(gold), unbounded(gold)
    lo, hi = bounds
    if not lo < hi or bool(np.any((gold < lo) | (gold > hi))):
        raise ValueError(f"expected gold values in [{lo:g}, {hi:g}]; give the scale's own bounds")
    return lo, hi


def _oracle_share(
    gained: FloatArray, room: FloatArray, depth: FloatArray, clusters: Clusters
) -> Estimate:
    """Ratio of sums; a row weighs its share of the room.

    It cannot be over 1, nor under what picking the worst would get.
    """
    total = float(room.sum())
    if not total > ROUNDING * max(1.0, float(np.abs(room).max(initial=0.0))):
        return Estimate(n=len(clusters), n_units=clusters.n_users)
    value = float(gained.sum()) / total
    constant = bool(np.abs(gained - value * room).max() <= ROUNDING * total)
    spread = jackknife(ratio(gained, room), room, clusters, constant)
    lowest = min(0.0, float(depth.sum()) / total)
    return interval(min(1.0, max(lowest, value)), spread, 0.0, (lowest, 1.0))


def samples(scores: ArrayLike, gold: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Both as float64 arrays of shape (questions, N), refused as by `best_of`."""
    s, g = np.asarray(scores, dtype=np.float64), np.asarray(gold, dtype=np.float64)
    if s.ndim != 2 or s.shape != g.shape:
        shapes = f"one shape (questions, samples), got {s.shape} and {g.shape}"
        raise ValueError(f"expected scores and gold values of {shapes}")
    if bool(np.isinf(s).any() or np.isinf(g).any()):
        raise ValueError("scores and gold values must be finite, or NaN where there is none")
    return s, g


def sizes(ks: Sequence[int], n: int) -> list[int]:
    """Return the ks as a list, refused unless each is in 1 … n."""
    for k in ks:
        if not 1 <= k <= n:
            raise UsageError(
                f"best of {k} needs {k} samples and there are {n}; sample more or lower k"
            )
    if not len(ks):
        raise UsageError("no k is given")
    return [int(k) for k in ks]


def _in_score_order(s: FloatArray, g: FloatArray, n: int) -> FloatArray:
    # Gold values of the n usable samples by rising score, each the mean of its tie.
    s = np.where(np.isnan(g), np.nan, s)
    order = np.argsort(s, axis=1, kind="stable")[:, :n]
    s, g = np.take_along_axis(s, order, axis=1), np.take_along_axis(g, order, axis=1)
    starts = np.ones(s.shape, dtype=bool)
    starts[:, 1:] = s[:, 1:] != s[:, :-1]
    tie = np.cumsum(starts.ravel()) - 1
    means = np.bincount(tie, weights=g.ravel()) / np.bincount(tie)
    ranked: FloatArray = means[tie].reshape(s.shape)
    return ranked


def _weights(n: int, most: int) -> Iterator[tuple[int, FloatArray]]:
    """Weights of the ranks k … n for k = 1 … most; lower ranks have weight 0.

    ``w_j(k + 1) = w_j(k) · (j - k)/k · (k + 1)/(n - k)``: no difference is taken and no factor
    overflows, so that thousands of samples lose no digits.
    """
    w = np.full(n, 1 / n)
    for k in range(1, most + 1):
        yield k, w
        if k < most:
            # The rank j = k drops out: no subset of k + 1 has its maximum there.
            ahead = np.arange(1.0, n - k + 1)
            w = w[1:] * (ahead / k) * ((k + 1) / (n - k))


Peak = Literal["within", "beyond", "start", "none"]


@dataclass(frozen=True, slots=True)
class OverOptimisation:
    """The fitted curve and its peak."""

    alpha: Estimate
    """Slope at d = 0, gold units per √nat; p against 0."""
    beta: Estimate
    """How fast it bends; only where its interval lies above 0 is there a peak."""
    ks: tuple[int, ...]
    """The sizes it was fitted on."""
    residual: float
    """Root mean square of what the curve leaves of the mean gains."""
    peak: Peak
    """``within`` the fitted ks; ``beyond`` them, an extrapolation; at the ``start``, where the
    first step already loses; ``none`` where β's interval does not lie above 0: that the curve
    bends down is not shown."""
    peak_d: float | None
    """d*; None without a peak."""
    peak_k: float | None
    """k with that d; not an integer. None without a peak, or beyond e^600."""
    peak_gain: float | None
    """R(d*)."""
    n_left_out: int
    """Questions with fewer than max(ks) usable samples."""


def over_optimisation(
    scores: ArrayLike,
    gold: ArrayLike,
    users: Ids,
    ks: Sequence[int] | None = None,
    *,
    questions: Ids | None = None,
    mirrors: Sequence[int] | IntArray | None = None,
) -> OverOptimisation:
    """Fit R(d) = d(α - βd) to the gains of best-of-k over one sample.

    Arguments are those of `best_of_curve`. All ks weigh the same; k = 1 says nothing and is passed
    over. By default they are up to 16 sizes from 2 to N/2, evenly spaced in log k: the solid part
    of the curve.

    Raises as `best_of_curve`, and `UsageError` for fewer than two ks above 1, or no question with
    max(ks) usable samples.

    >>> import numpy as np
    >>> gold = np.random.default_rng(0).normal(size=(200, 64))
    >>> fit = over_optimisation(gold, gold, list(range(200)))
    >>> round(fit.alpha.value, 2), round(fit.beta.value, 2), fit.peak
    (1.27, -0.01, 'none')
    """
    s, g = samples(scores, gold)
    same_length(gold=g, users=users)
    n = s.shape[1]
    if ks is None and n < 6:
        raise UsageError(f"{n} samples a question are too few to fit a curve; sample at least 6")
    wanted = sorted(
        {round(k) for k in np.geomspace(2, n // 2, 16)} if ks is None else {*sizes(ks, n)} - {1}
    )
    if len(wanted) < 2:
        raise UsageError("two parameters need at least two sizes above 1 (N of 6 or more)")
    units = Units.of(users, questions, usable(s, g) >= wanted[-1], mirrors)
    if not units.rows[0].size:
        raise UsageError(f"no question has {wanted[-1]} samples with a score and a gold value")
    values = units.values(best_of(s, g, [1, *wanted]))
    gains = values[:, 1:] - values[:, :1]
    # What rounding leaves of equal values must not be fitted.
    gains[np.abs(gains) <= ROUNDING * max(1.0, float(np.abs(values).max()))] = 0.0
    d = np.sqrt([kl_bound(k) for k in wanted])
    design = np.stack([d, -(d**2)], axis=1)
    by_question = gains @ np.linalg.pinv(design).T
    alpha, beta = by_question.mean(axis=0).tolist()
    rest = gains.mean(axis=0) - design @ np.array([alpha, beta])
    slope, bends = (
        clustered_mean(x, units.clusters, null=0.0, bounds=(-unbounded(x), unbounded(x)))
        for x in by_question.T
    )
    peak = _peak(alpha, bends, float(d[-1]))
    peak_d = None if peak == "none" else 0.0 if peak == "start" else alpha / (2 * beta)
    return OverOptimisation(
        alpha=slope,
        beta=bends,
        ks=tuple(wanted),
        residual=float(np.sqrt(np.mean(rest**2))),
        peak=peak,
        peak_d=peak_d,
        peak_k=None if peak_d is None else k_of(peak_d),
        peak_gain=None if peak_d is None else peak_d * (alpha - beta * peak_d),
        n_left_out=len(s) - sum(side.size for side in units.rows),
    )


def k_of(d: float) -> float | None:
    """The k whose KL bound is d²: ``log k - (k - 1)/k = d²``; None beyond e^600."""
    if d <= 0:
        return 1.0
    target = d * d
    if target > 598:
        return None
    from scipy.optimize import brentq  # slow to import

    log_k = brentq(lambda t: t + math.expm1(-t) - target, 0.0, target + 1.0, xtol=1e-12)
    return math.exp(float(log_k))


def _peak(alpha: float, beta: Estimate, last: float) -> Peak:
    if beta.value is None or beta.low is None or beta.low <= 0:
        return "none"
    if alpha <= 0:
        return "start"
    return "within" if alpha / (2 * beta.value) <= last else "beyond"
