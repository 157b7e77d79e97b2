"""A scorer's numbers against the numbers users gave: rank correlation and calibrated error.

Both are taken user by user, since users mean different things by a 4, and then averaged over
users, so that a user with many ratings counts as one. Neither looks at more than the order of the
scores, so a scorer loses nothing by its scale.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import isotonic_regression

from palate.metrics.arrays import FloatArray, Ids, IntArray, deal, same_length, sums, vector
from palate.metrics.clusters import Clusters, Columns, n_clusters, pairs_of
from palate.metrics.estimates import GAIN, ROUNDING, UNIT, Estimate, interval
from palate.metrics.jackknife import jackknife
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
        spread = jackknife(without, weights, rows, constant=bool(np.ptp(values) <= ROUNDING))
        return interval(float(values.mean()), spread, n=n, n_units=n, null=0.0, bounds=GAIN)

    return [mean(0), mean(1)]


def isotonic_predictions(scores: ArrayLike, ratings: ArrayLike, new: ArrayLike) -> FloatArray:
    """Fit a rising step function of the scores to the ratings, and read it at new scores.

    Equal scores are pooled. A new score takes the mean of the fitted values of the nearest scores
    at or below and at or above it (of one, at the ends).

    >>> isotonic_predictions([1, 2, 3], [0.0, 1.0, 0.5], [0, 1.5, 9]).tolist()
    [0.0, 0.375, 0.75]
    """
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
