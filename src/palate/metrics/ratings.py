"""A scorer's numbers against the numbers users gave: rank correlation and calibrated error.

Both are taken user by user, since users mean different things by a 4, and then averaged over
users, so that a user with many ratings counts as one. Neither looks at more than the order of the
scores, so a scorer loses nothing by its scale.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import isotonic_regression

from palate.metrics.arrays import FloatArray, Ids, IntArray, same_length, sums, vector
from palate.metrics.clusters import Clusters, Columns, pairs_of
from palate.metrics.estimates import GAIN, ROUNDING, UNIT, Estimate, interval
from palate.metrics.jackknife import jackknife
from palate.metrics.means import macro_mean

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import ArrayLike

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

    Args:
        scores: shape (items,), finite.
        ratings: the user's ratings of the same items.
        clusters: whose rating it is, or `Clusters` that also know the question.

    Raises:
        ValueError: for unequal lengths or a number that is not finite.

    Example:
        >>> found = rank_correlations([1, 2, 3, 4, 0, 9], [1, 3, 2, 4, 5, 5], list("aaaabb"))
        >>> round(found.spearman.value, 3), round(found.kendall.value, 3), found.left_out
        (0.8, 0.667, 1)
    """
    rows = Clusters.of(clusters)
    s, r = _items(scores, ratings, rows)
    (users,) = rows.users
    n_users = rows.n_users if s.size else 0
    each = np.array([_correlations(s[at], r[at]) for at in _by_user(users, n_users)])
    each = each.reshape(n_users, 2)
    defined = ~np.isnan(each[:, 0])
    if rows.items is None:
        spearman, kendall = (
            macro_mean(column, range(len(column)), null=0.0, bounds=GAIN)
            for column in each[defined].T
        )
        return RankCorrelations(spearman, kendall, int((~defined).sum()))
    rows = rows.take(defined[users])
    s, r, each = s[defined[users]], r[defined[users]], each[defined]
    memo: dict[bytes, FloatArray] = {}
    spearman, kendall = (_mean_correlation(s, r, each, rows, which, memo) for which in range(2))
    return RankCorrelations(spearman, kendall, n_users - len(each))


def cross_fitted_predictions(
    scores: ArrayLike, ratings: ArrayLike, users: Ids, items: Ids, *, folds: int = 5, seed: int = 0
) -> Predictions:
    """Predict each rating from the same user's others, by isotonic regression on the scores.

    A user's items, sorted by ``str(id)``, are dealt to ``min(folds, n_u)`` folds by a seeded
    shuffle, so that folds depend on neither scores nor the order of rows. Each fold is predicted
    by the others: equal scores are pooled, fitted by weighted isotonic (rising) regression, and a
    new score takes the mean of the fitted values of the nearest scores at or below and at or above
    it (of one, at the ends). That is a step function of ranks: a strictly rising transform of the
    scores changes nothing. A user with one item has no prediction.

    Args:
        scores: shape (items,), finite.
        ratings: of the same items; predictions stay between the lowest and the highest.
        users: whose rating it is.
        items: what was rated, distinct within a user.
        folds: at most this many.
        seed: of the shuffle.

    Raises:
        ValueError: for unequal lengths, a number that is not finite, or fewer than two folds.

    Example:
        >>> found = cross_fitted_predictions([1, 2, 3], [0, 0.5, 1], list("aaa"), list("xyz"))
        >>> found.scorer.tolist(), found.user_mean.tolist()
        ([0.5, 0.5, 0.5], [0.75, 0.5, 0.25])
    """
    if folds < 2:
        raise ValueError("cross-fitting needs at least two folds")
    rows = Clusters.of(users)
    s, r = _items(scores, ratings, rows)
    codes, n_users = rows.users[0], rows.n_users if s.size else 0
    same_length(scores=s, items=items)
    names = [str(item) for item in items]
    by_scorer, by_mean = np.full(s.size, np.nan), np.full(s.size, np.nan)
    for found in _by_user(codes, n_users):
        of_user = np.array(sorted(found.tolist(), key=names.__getitem__), dtype=np.int64)
        if of_user.size < 2:
            continue
        fold = np.random.default_rng(seed).permutation(of_user.size) % min(folds, of_user.size)
        for k in range(int(fold.max()) + 1):
            new, known = of_user[fold == k], of_user[fold != k]
            by_scorer[new] = isotonic_predictions(s[known], r[known], s[new])
            by_mean[new] = np.clip(r[known].mean(), r.min(), r.max())
    counts = np.bincount(codes, minlength=n_users)
    others = r.size - counts
    rest = (r.sum() - sums(codes, r, n_users)) / np.where(others > 0, others, 1)
    rest = np.clip(rest, r.min(), r.max()) if r.size else rest
    by_others = np.where(others > 0, rest, np.nan)[codes]
    return Predictions(by_scorer, by_mean, by_others)


def isotonic_predictions(
    scores: ArrayLike, ratings: ArrayLike, new_scores: ArrayLike
) -> FloatArray:
    """Fit a rising step function of the scores to the ratings, and read it at new scores.

    Args:
        scores: shape (items,), at least one.
        ratings: of the same items.
        new_scores: shape (new items,).

    Raises:
        ValueError: for unequal lengths or without items.

    Example:
        >>> isotonic_predictions([1, 2, 2, 5], [0, 1, 0.5, 0.5], [0, 1.5, 2, 9]).tolist()
        [0.0, 0.3333333333333333, 0.6666666666666666, 0.6666666666666666]
    """
    s, r, new = vector(scores), vector(ratings), vector(new_scores)
    same_length(scores=s, ratings=r)
    if not s.size:
        raise ValueError("nothing to fit: no items")
    levels, where, counts = np.unique(s, return_inverse=True, return_counts=True)
    means = sums(where, r, levels.size) / counts
    fitted = np.asarray(isotonic_regression(means, weights=counts).x, dtype=np.float64)
    below = np.clip(np.searchsorted(levels, new, side="right") - 1, 0, None)
    above = np.clip(np.searchsorted(levels, new, side="left"), None, levels.size - 1)
    # Pooled means can leave the range of the ratings by a rounding step.
    found: FloatArray = np.clip((fitted[below] + fitted[above]) / 2, r.min(), r.max())
    return found


def mean_error(predictions: ArrayLike, ratings: ArrayLike, clusters: Ids | Clusters) -> Estimate:
    """Mean over users of each user's mean |prediction - rating|; NaN predictions are left out.

    ``n`` counts ratings, ``n_units`` users.

    Raises:
        ValueError: for unequal lengths, or an error outside of [0, 1].

    Example:
        >>> mean_error([0.5, 0.5, 1], [0, 0.5, 0.5], ["a", "a", "b"]).value
        0.375
    """
    return macro_mean(_errors(predictions, ratings), clusters, bounds=UNIT)


def error_saved(
    predictions: ArrayLike, baseline: ArrayLike, ratings: ArrayLike, clusters: Ids | Clusters
) -> Estimate:
    """Mean over users of how much smaller the errors are than a baseline's, in [-1, 1].

    Over the ratings that both predict; positive where the scorer is better. ``p`` is that of the t.

    Raises:
        ValueError: as ``mean_error``.

    Example:
        >>> error_saved([0.5, 1, 0.25], [0, 0, 0], [1, 1, 0.25], ["a", "b", "c"]).value
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


def _mean_correlation(
    scores: FloatArray,
    ratings: FloatArray,
    each: FloatArray,
    rows: Clusters,
    which: int,
    memo: dict[bytes, FloatArray],
) -> Estimate:
    """Mean over users of one correlation, computed anew without each question's rows."""
    (users,) = rows.users
    counts = np.bincount(users)
    values, of_user = each[:, which], np.split(np.argsort(users, kind="stable"), np.cumsum(counts))

    def rest(at: IntArray) -> float:
        key = at.tobytes()
        if key not in memo:
            left = np.setdiff1d(of_user[users[at[0]]], at, assume_unique=True)
            memo[key] = _correlations(scores[left], ratings[left])
        return float(memo[key][which])

    def without(columns: Columns) -> FloatArray:
        if not columns:
            return np.array([values.mean()])
        (codes,) = columns
        size = int(codes.max()) + 1
        total, number = np.full(size, values.sum()), np.full(size, float(values.size))
        pairs = pairs_of(codes, users)
        order = np.argsort(pairs, kind="stable")
        for at in np.split(order, np.flatnonzero(np.diff(pairs[order])) + 1):
            cluster, value = codes[at[0]], rest(at)
            total[cluster] -= values[users[at[0]]]
            if np.isnan(value):
                number[cluster] -= 1
            else:
                total[cluster] += value
        mean: FloatArray = np.divide(total, number, out=np.full(size, np.nan), where=number > 0)
        return mean

    weights = 1 / counts[users]
    constant = bool(np.ptp(values) <= ROUNDING)
    spread = jackknife(without, weights, rows, constant=constant)
    n = values.size
    return interval(float(values.mean()), spread, n=n, n_units=n, null=0.0, bounds=GAIN)


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


def _by_user(codes: IntArray, n_users: int) -> Iterator[IntArray]:
    order = np.argsort(codes, kind="stable")
    if n_users:
        yield from np.split(order, np.cumsum(np.bincount(codes, minlength=n_users))[:-1])
