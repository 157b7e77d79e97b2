"""Numbers that users gave: a scorer's correlation and calibrated error, and raters' agreement.

Correlation and error are taken user by user, since users mean different things by a 4, and then
averaged over users, so that a user with many ratings counts as one. Neither looks at more than the
order of the scores, so a scorer loses nothing by its scale.

Raters' agreement is percent agreement, the mean over units of the share of their pairs of values
that are equal, or Krippendorff's α. From counts c (units × values) of the units with m ≥ 2 values:

```
O   = Σ_i (c_i c_i' - diag c_i) / (m_i - 1),   n = O 1,   N = Σ n
D_o = Σ O Δ / N,   D_e = n'Δn / (N (N - 1)),   α = 1 - D_o/D_e
Δ   = 1[k ≠ l] (nominal),   (k - l)² (interval),   (r_k - r_l)² of mid-ranks (ordinal)
```
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from palate.errors import UsageError
from palate.metrics.arrays import (
    FloatArray,
    Ids,
    IntArray,
    deal,
    same_length,
    scored_rows,
    sums,
    vector,
)
from palate.metrics.clusters import Clusters, Columns, compact, jackknife, n_clusters, pairs_of
from palate.metrics.estimates import GAIN, ROUNDING, UNIT, Estimate, interval
from palate.metrics.means import macro_mean

DISTINCT = 3


@dataclass(frozen=True, slots=True)
class RankCorrelations:
    """Mean over users of the rank correlation of scores and ratings."""

    spearman: Estimate
    kendall: Estimate
    """τ-b."""
    left_out: int
    """Users with fewer than three distinct ratings, constant ones among them."""


@dataclass(frozen=True, slots=True, eq=False)
class Predictions:
    """What each rating was predicted to be, none of them from itself; NaN where there is none."""

    scorer: FloatArray
    """By the user's other ratings and the order of the scores."""
    user_mean: FloatArray
    """The mean of the same other ratings of the user."""
    global_mean: FloatArray
    """The mean of all other users' ratings; NaN where there is only one user."""


def rank_correlations(
    scores: ArrayLike, ratings: ArrayLike, clusters: Ids | Clusters
) -> RankCorrelations:
    """Spearman's ρ and Kendall's τ-b of each user, averaged over users, with the jackknife.

    Where users share questions, each user's correlation is computed anew without each question.
    Users with fewer than three distinct ratings are left out and counted. A user whose scores are
    all equal counts as 0: who orders nothing has no part in the order.

    >>> e = rank_correlations([1, 2, 3, 4, 0, 9], [1, 3, 2, 4, 5, 5], list("aaaabb"))
    >>> round(e.spearman.value, 3), round(e.kendall.value, 3), e.left_out
    (0.8, 0.667, 1)
    """
    rows = Clusters.of(clusters)
    s, r = _items(scores, ratings, rows)
    users = rows.user
    by_user = np.array([_correlations(s[at], r[at]) for at in _by_code(users)]).reshape(-1, 2)
    defined = ~np.isnan(by_user[:, 0])
    of_defined = defined[users]
    s, r, rows, by_user = s[of_defined], r[of_defined], rows.take(of_defined), by_user[defined]
    if rows.items is None:
        spearman, kendall = (macro_mean(x, range(len(x)), null=0.0, bounds=GAIN) for x in by_user.T)
    else:
        spearman, kendall = _mean_correlations(s, r, by_user, rows)
    return RankCorrelations(spearman, kendall, int((~defined).sum()))


def cross_fitted_predictions(
    scores: ArrayLike, ratings: ArrayLike, users: Ids, items: Ids, *, seed: int = 0
) -> Predictions:
    """Predict each rating from the same user's others, by isotonic regression on the scores.

    A user's items, sorted by ``str(id)``, are dealt to ``min(5, n_u)`` folds by a seeded
    shuffle, so that folds depend on neither scores nor the order of rows. Each fold is predicted
    by the others: equal scores are pooled, fitted by weighted isotonic (rising) regression, and a
    new score takes the mean of the fitted values of the nearest scores at or below and at or above
    it (of one, at the ends). That is a step function of ranks: a strictly rising transform of the
    scores changes nothing. A user with one item has no prediction.

    Predictions stay between the lowest and the highest rating. What was rated, `items`, is distinct
    within a user.

    >>> e = cross_fitted_predictions([1, 2, 3], [0, 0.5, 1], list("aaa"), list("xyz"))
    >>> e.scorer.tolist(), e.user_mean.tolist()
    ([0.5, 0.5, 0.5], [0.75, 0.5, 0.25])
    """
    rows = Clusters.of(users)
    s, r = _items(scores, ratings, rows)
    (codes,) = rows.users
    same_length(scores=s, items=items)
    by_scorer, by_mean = np.full(s.size, np.nan), np.full(s.size, np.nan)
    for at in _by_code(codes):
        fold = deal([items[i] for i in at], seed)
        for k in range(fold.max() + 1) if at.size > 1 else ():
            new, known = at[fold == k], at[fold != k]
            by_scorer[new] = isotonic_predictions(s[known], r[known], s[new])
            by_mean[new] = np.clip(r[known].mean(), r.min(), r.max())
    others = r.size - np.bincount(codes)
    rest = (r.sum() - sums(codes, r, others.size)) / np.where(others > 0, others, 1)
    rest = np.clip(rest, r.min(), r.max()) if r.size else rest
    by_others = np.where(others > 0, rest, np.nan)[codes]
    return Predictions(by_scorer, by_mean, by_others)


def mean_error(predictions: ArrayLike, ratings: ArrayLike, clusters: Ids | Clusters) -> Estimate:
    """Mean over users of each user's mean |prediction - rating|; NaN predictions are left out.

    ``n`` counts ratings, ``n_units`` users.

    >>> mean_error([0.5, 0.5, 1], [0, 0.5, 0.5], ["a", "a", "b"]).value
    0.375
    """
    return macro_mean(_errors(predictions, ratings), clusters, bounds=UNIT)


def alignment(reward: ArrayLike, rating: ArrayLike) -> FloatArray | float:
    """Return how far rewards agree with ratings: 1 − |r − s| on the unit scale, at least 0.

    One less the error that `palate evaluate --target rating` averages; NaN of a missing reward.
    Raises `UsageError` for a rating outside of [0, 1], and for columns of unequal length.

    >>> alignment(0.75, 1), alignment([0.5, -2.0], [0.25, 0.5]).tolist()
    (0.75, [0.75, 0.0])
    """
    try:
        rewards, ratings = (np.asarray(column, dtype=np.float64) for column in (reward, rating))
        shares = np.maximum(1 - _errors(rewards.ravel(), ratings.ravel()), 0)
    except (TypeError, ValueError) as error:
        raise UsageError(f"alignment: {error}") from error
    if outside := [each for each in ratings.ravel().tolist() if not 0 <= each <= 1]:
        unit = "the unit scale [0, 1]; give (rating − lowest) / (highest − lowest)"
        raise UsageError(f"alignment: the rating {outside[0]:g} lies outside of {unit}")
    return shares.reshape(rewards.shape) if rewards.ndim else float(shares[0])


def error_reduction(
    predictions: ArrayLike, baseline: ArrayLike, ratings: ArrayLike, clusters: Ids | Clusters
) -> Estimate:
    """Mean over users of how much smaller the errors are than a baseline's, in [-1, 1].

    Over the ratings that both predict; positive where the scorer is better. ``p`` is that of the t.

    >>> error_reduction([0.5, 1, 0.25], [0, 0, 0], [1, 1, 0.25], ["a", "b", "c"]).value
    0.5833333333333334
    """
    saved = _errors(baseline, ratings) - _errors(predictions, ratings)
    return macro_mean(saved, clusters, null=0.0, bounds=GAIN)


def _correlations(scores: FloatArray, ratings: FloatArray) -> FloatArray:
    """Spearman's ρ and Kendall's τ-b; NaN with fewer than three distinct ratings."""
    from scipy.stats import kendalltau, spearmanr  # slow to import

    if np.unique(ratings).size < DISTINCT:
        return np.full(2, np.nan)
    if np.unique(scores).size == 1:
        return np.zeros(2)
    rho = spearmanr(scores, ratings).statistic
    tau = kendalltau(scores, ratings, method="asymptotic").statistic
    # A correlation of 1 can come out a rounding step above it.
    both: FloatArray = np.clip([rho, tau], *GAIN)
    return both


def _mean_correlations(
    scores: FloatArray, ratings: FloatArray, by_user: FloatArray, rows: Clusters
) -> list[Estimate]:
    """Mean over users of both correlations, computed anew without each question's rows."""
    users = rows.user
    n, of_user = len(by_user), _by_code(users)

    @cache  # the same rows are left out for both
    def rest(left_out: bytes) -> FloatArray:
        at = np.frombuffer(left_out, dtype=np.int64)
        left = np.setdiff1d(of_user[users[at[0]]], at, assume_unique=True)
        return _correlations(scores[left], ratings[left])

    def mean(which: int) -> Estimate:
        values = by_user[:, which]

        def without(columns: Columns) -> FloatArray:
            if not columns:
                return np.array([values.mean()])
            (codes,), size = columns, n_clusters(columns)
            total, number = np.full(size, values.sum()), np.full(size, float(n))
            for at in _by_code(pairs_of(codes, users)):
                cluster, value = codes[at[0]], float(rest(at.tobytes())[which])
                total[cluster] -= values[users[at[0]]]
                if np.isnan(value):
                    number[cluster] -= 1
                else:
                    total[cluster] += value
            left: FloatArray = np.divide(total, number, np.full(size, np.nan), where=number > 0)
            return left

        weights = 1 / np.bincount(users)[users]
        spread = jackknife(without, weights, rows, bool(np.ptp(values) <= ROUNDING))
        return replace(interval(float(values.mean()), spread, 0.0, GAIN), n=n)

    return [mean(0), mean(1)]


def isotonic_predictions(scores: ArrayLike, ratings: ArrayLike, new: ArrayLike) -> FloatArray:
    """Fit a rising step function of the scores to the ratings, and read it at new scores.

    Equal scores are pooled. A new score takes the mean of the fitted values of the nearest scores
    at or below and at or above it (of one, at the ends).

    >>> isotonic_predictions([1, 2, 3], [0.0, 1.0, 0.5], [0, 1.5, 9]).tolist()
    [0.0, 0.375, 0.75]
    """
    from scipy.optimize import isotonic_regression  # slow to import

    s, r, new = vector(scores), vector(ratings), vector(new)
    levels, where, counts = np.unique(s, return_inverse=True, return_counts=True)
    means = sums(where, r, levels.size) / counts
    fitted = np.asarray(isotonic_regression(means, weights=counts).x, dtype=np.float64)
    below = np.clip(np.searchsorted(levels, new, side="right") - 1, 0, None)
    above = np.clip(np.searchsorted(levels, new, side="left"), None, levels.size - 1)
    # Pooled means can leave the range of the ratings by a rounding step.
    predicted: FloatArray = np.clip((fitted[below] + fitted[above]) / 2, r.min(), r.max())
    return predicted


def _errors(predictions: ArrayLike, ratings: ArrayLike) -> FloatArray:
    predicted, given = vector(predictions), vector(ratings)
    same_length(predictions=predicted, ratings=given)
    return np.abs(predicted - given)


def _items(scores: ArrayLike, ratings: ArrayLike, rows: Clusters) -> tuple[FloatArray, FloatArray]:
    s, r = vector(scores), vector(ratings)
    same_length(scores=s, ratings=r, users=rows.users[0])
    if not bool(np.isfinite(s).all() and np.isfinite(r).all()):
        raise ValueError("scores and ratings must be finite; leave out what is missing")
    return s, r


def _by_code(codes: IntArray) -> list[IntArray]:
    """Rows of each code in turn; codes from 0 without gaps."""
    if not codes.size:
        return []
    return np.split(np.argsort(codes, kind="stable"), np.cumsum(np.bincount(codes))[:-1])


Measure = Literal["percent", "nominal", "ordinal", "interval"]
NO_PAIR = "no item has values of two raters"
ALIKE = "all values are alike: chance is not defined"


def rater_agreement(
    values: ArrayLike,
    units: Ids,
    clusters: Ids | Clusters,
    *,
    measure: Measure = "nominal",
    both_orders: bool = False,
) -> Estimate:
    """Percent agreement, or Krippendorff's α: 1 for full agreement, 0 for that of chance.

    `units` are what raters gave the values to, `clusters` the raters, or `Clusters` of raters and
    what they rated; n counts units of two values or more. Raters, items and cells are left out in
    turn; mid-ranks are then made anew. With `both_orders` every unit also counts with its values
    negated: choices of -1, 0 and 1 between two answers then do not depend on which stands first.
    None, with a note, without a unit of two values, and of α where all values are alike. The work
    grows with the square of the number of distinct values. Raises `ValueError` for two values of
    one rater of one unit: nobody agrees with themselves.

    >>> units, raters = list("xxyyzz"), list("ababab")
    >>> e = rater_agreement([1, 1, -1, -1, 1, -1], units, raters)
    >>> round(e.value, 3), e.n, e.n_units
    (0.444, 3, 2)
    """
    given, rows = vector(values), Clusters.of(clusters)
    same_length(values=given, raters=rows.user)
    x, unit, names = scored_rows(given, units)
    cells = pairs_of(rows.user[~np.isnan(given)], unit)
    if (twice := np.bincount(cells, minlength=1)[cells] > 1).any():
        unit_twice = names[unit[int(twice.argmax())]]
        raise ValueError(f"a rater has two values of unit {unit_twice!r}: leave one, or their mean")
    several = np.bincount(unit, minlength=1)[unit] > 1
    if not several.any():
        return Estimate(note=NO_PAIR)
    rows = rows.take(~np.isnan(given)).take(several)
    x, unit = x[several], compact(unit[several])[0]
    scale = np.unique(np.concatenate([x, -x] if both_orders else [x]))
    value, width = np.searchsorted(scale, x), scale.size

    def counted(groups: np.ndarray) -> FloatArray:
        size = int(groups.max()) + 1
        counts = np.bincount(groups * width + value, minlength=size * width)
        return counts.reshape(size, width).astype(np.float64)

    counts = counted(unit)
    of_units = _parts(counts)

    def without(columns: Columns) -> FloatArray:
        left = np.repeat(of_units.sum(axis=0)[None], n_clusters(columns), axis=0)
        if columns:
            cells = pairs_of(columns[0], unit)
            at = np.unique(cells, return_index=True)[1]
            rest = _parts(counts[unit[at]] - counted(cells))
            np.subtract.at(left, columns[0][at], of_units[unit[at]] - rest)
        return _figures(left, scale, measure, both_orders)

    n, bounds = len(counts), UNIT if measure == "percent" else GAIN
    with np.errstate(invalid="ignore", divide="ignore"):
        figure = float(without(())[0])
        if np.isnan(figure):
            return Estimate(n=n, n_units=rows.n_users, note=ALIKE)
        # Whoever is left out, full agreement stays full, and none at all stays none.
        constant = figure > 1 - ROUNDING or (measure == "percent" and figure < ROUNDING)
        figure = min(max(figure, bounds[0]), bounds[1])
        spread = jackknife(without, np.ones(x.size), rows, constant)
    return replace(interval(figure, spread, sum(bounds) / 2, bounds), n=n)


def _parts(counts: FloatArray) -> FloatArray:
    """Of each unit: agreement, 1, and coincidences; zeros where it has fewer than two values."""
    m, k = counts.sum(axis=1), np.arange(counts.shape[1])
    both = counts[:, :, None] * counts[:, None, :]
    both[:, k, k] -= counts
    both /= np.where(m > 1, m - 1, np.inf)[:, None, None]
    agreed = both[:, k, k].sum(axis=1) / np.maximum(m, 1)
    return np.column_stack([agreed, m > 1, both.reshape(len(counts), -1)])


def _figures(
    left: FloatArray, scale: FloatArray, measure: Measure, both_orders: bool
) -> FloatArray:
    """The figure of each sum of parts; NaN where it is not defined."""
    if measure == "percent":
        return left[:, 0] / np.where(left[:, 1] > 0.5, left[:, 1], np.nan)
    both = left[:, 2:].reshape(-1, scale.size, scale.size)
    if both_orders:
        both = both + both[:, ::-1, ::-1]
    n = both.sum(axis=2)
    ranks = np.cumsum(n, axis=1) - n / 2 if measure == "ordinal" else scale[None]
    distances: FloatArray = (ranks[:, :, None] - ranks[:, None, :]) ** 2
    if measure == "nominal":
        distances = (distances > 0).astype(np.float64)
    total = n.sum(axis=1)
    seen = (both * distances).sum(axis=(1, 2)) / total
    pairs = n[:, :, None] * n[:, None, :]
    chance = (pairs * distances).sum(axis=(1, 2)) / (total * (total - 1))
    defined = (left[:, 1] > 0.5) & (chance > ROUNDING * distances.max(axis=(1, 2)))
    alphas: FloatArray = 1 - seen / np.where(defined, chance, np.nan)
    return alphas
