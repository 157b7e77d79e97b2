"""Means over rows, couples and users, of two groups of rows, and of the worst-served users.

The units of a figure are rows or mirrored couples, and depend on each other as `Clusters` say.
All have the interval of `jackknife`. With ten rows a user, the worst decile of the raw means is
mostly bad luck. So each mean is also given shrunken toward the overall mean, by how much users
differ beyond that luck.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from palate.metrics.arrays import (
    FloatArray,
    Ids,
    IntArray,
    id_codes,
    same_length,
    scored_rows,
    sums,
    vector,
)
from palate.metrics.clusters import Clusters, Columns, jackknife, ratio
from palate.metrics.estimates import GAIN, ROUNDING, UNIT, Bounds, Estimate, interval
from palate.metrics.paired import sign_flip_test


def clustered_mean(
    values: ArrayLike, clusters: Ids | Clusters, *, null: float = 0.5, bounds: Bounds = UNIT
) -> Estimate:
    """Mean over rows or couples, every one weighing the same, with the interval of `jackknife`.

    p tests against ``null``; the interval is clipped to ``bounds``, the range of the values.

    >>> e = clustered_mean([1, 1, 0, 1, 1, 0], ["a", "a", "b", "b", "c", "c"])
    >>> round(e.value, 3), round(e.se, 3), e.n, e.n_units, round(e.df, 3)
    (0.667, 0.167, 6, 3, 2.0)

    A scorer that ignores the user is right once in every couple:

    >>> couples = Clusters.of(["ann", "bob", "cy"], ["bob", "cy", "ann"])
    >>> e = clustered_mean([0.5, 0.5, 0.5], couples)
    >>> e.value, e.low, e.high, e.p
    (0.5, 0.5, 0.5, 1.0)
    """
    x, rows = scored(vector(values, bounds), clusters)
    if not x.size:
        return Estimate()
    return _mean(x, np.ones_like(x), float(x.mean()), rows, null, bounds)


def macro_mean(
    values: ArrayLike, clusters: Ids | Clusters, *, null: float = 0.5, bounds: Bounds = UNIT
) -> Estimate:
    """Mean over users of each user's mean: rows weigh ``1/n_u``. ``n`` counts rows.

    Where no question is shared, the variance is the classical ``Σ_u (m_u - mbar)² / (U (U - 1))``.

    Of rows, no couples; ``null`` and ``bounds`` as in `clustered_mean`.

    >>> e = macro_mean([1, 1, 0, 1, 0], ["a", "a", "a", "b", "c"])
    >>> round(e.value, 4), round(e.se, 4), e.n, e.n_units
    (0.5556, 0.294, 5, 3)
    """
    x, rows = scored(vector(values, bounds), clusters)
    if not x.size:
        return Estimate()
    users = rows.user
    counts = np.bincount(users)
    # A mean of values in bounds can leave them by one rounding step.
    means = np.clip(sums(users, x, counts.size) / counts, *bounds)
    mean = float(means.mean())
    if rows.items is not None:
        return _mean(x, 1 / counts[users], mean, rows, null, bounds)
    by_user = Clusters((np.arange(counts.size),))
    return replace(_mean(means, np.ones_like(means), mean, by_user, null, bounds), n=x.size)


def paired_difference(x: ArrayLike, y: ArrayLike, clusters: Ids | Clusters) -> Estimate:
    """Mean of ``x_i - y_i`` over the rows, or couples, scored in both, in [-1, 1].

    >>> e = paired_difference([1, 1, 0, 1], [0, 1, 0, 0], ["a", "b", "c", "d"])
    >>> e.value, round(e.low, 2), e.high
    (0.5, -0.42, 1.0)
    """
    first, second = vector(x, UNIT), vector(y, UNIT)
    same_length(x=first, y=second)
    return clustered_mean(first - second, clusters, null=0.0, bounds=GAIN)


def scored(values: FloatArray, clusters: Ids | Clusters) -> tuple[FloatArray, Clusters]:
    """Leave out the NaN rows.

    >>> scored(np.array([1.0, np.nan, 0.0]), ["ann", "bob", "ann"])[0].tolist()
    [1.0, 0.0]
    """
    rows = Clusters.of(clusters)
    same_length(values=values, users=rows.users[0])
    known = ~np.isnan(values)
    return (values, rows) if known.all() else (values[known], rows.take(known))


def _mean(
    x: FloatArray, weights: FloatArray, mean: float, rows: Clusters, null: float, bounds: Bounds
) -> Estimate:
    constant = bool(np.abs(x - mean).max() <= ROUNDING * (bounds[1] - bounds[0]))
    spread = jackknife(ratio(x * weights, weights), weights, rows, constant)
    return interval(mean, spread, null, bounds)


def group_gap(values: ArrayLike, in_first: ArrayLike, clusters: Ids | Clusters) -> Estimate:
    """Difference of the means of two groups of rows, ``d = m_a - m_b``, in [-1, 1].

    The jackknife leaves a user (a question) out of both groups at once, so that what they do to
    both cancels; row weights are ``1/N_a`` and ``1/N_b``. The value is None where a group has no
    scored row; low, high and p are None where one user or question holds a group, or where all rows
    have one value.

    >>> e = group_gap([1, 1, 0, 1, 0, 0], [1, 1, 1, 0, 0, 0], ["a", "b", "c", "d", "e", "f"])
    >>> round(e.value, 3), round(e.se, 3), e.n, e.n_units, round(e.df, 3)
    (0.333, 0.527, 6, 6, 5.0)
    """
    by_row, first = vector(values, UNIT), np.asarray(in_first, dtype=bool)
    same_length(values=by_row, in_first=first)
    x, rows = scored(by_row, clusters)
    first = first[~np.isnan(by_row)]
    rows = replace(rows, strata=first.astype(np.int64))
    gap = _of_two_groups(x, first, rows, [1.0, -1.0], GAIN)
    if gap.value is None or float(np.ptp(x)) > ROUNDING:
        return gap
    # Unlike a blind scorer's gain, that is nothing by construction.
    return Estimate(0.0, n=gap.n, n_units=gap.n_units, note="no interval: all values are alike")


def length_controlled(
    values: ArrayLike,
    chosen_length: ArrayLike,
    rejected_length: ArrayLike,
    clusters: Ids | Clusters,
) -> Estimate:
    """Mean of the accuracy where chosen is longer and where it is shorter, with an interval.

    ``θ = (A_longer + A_shorter) / 2``, so a scorer that only reads length gets 0.5. The jackknife
    computes both accuracies anew; a row weighs ``1/N_longer`` or ``1/N_shorter``. No interval where
    one user or question holds a whole side; all null where a side is empty. ``n`` counts the rows
    of unequal length.

    >>> e = length_controlled([1, 1, 0, 1], [9, 8, 3, 4], [5, 5, 5, 4], ["a", "b", "c", "d"])
    >>> e.value, e.n
    (0.5, 3)
    """
    by_row = vector(values, UNIT)
    chosen, rejected = vector(chosen_length), vector(rejected_length)
    same_length(values=by_row, chosen_length=chosen, rejected_length=rejected)
    longer_by = chosen - rejected
    if bool(np.isnan(longer_by).any()):
        raise ValueError("lengths must be finite numbers")
    unequal = np.where(longer_by == 0, np.nan, by_row)
    x, rows = scored(unequal, clusters)
    return _of_two_groups(x, longer_by[~np.isnan(unequal)] > 0, rows, [0.5, 0.5], UNIT)


def _of_two_groups(
    x: FloatArray, in_first: NDArray[np.bool_], rows: Clusters, factors: list[float], bounds: Bounds
) -> Estimate:
    """Sum of the two groups' means, each times its factor; p against the middle of the bounds."""
    if in_first.all() or not in_first.any():
        return Estimate(n=x.size, n_units=rows.n_users)
    groups = [group.astype(np.float64) for group in (in_first, ~in_first)]
    means = [float(x[group].mean()) for group in (in_first, ~in_first)]
    parts = [(factor, ratio(x * w, w)) for factor, w in zip(factors, groups, strict=True)]
    spread = jackknife(
        lambda columns: sum((f * part(columns) for f, part in parts), np.zeros(1)),
        sum((w / w.sum() for w in groups), np.zeros(x.size)),
        rows,
        constant=all(float(np.ptp(x[group])) <= ROUNDING for group in (in_first, ~in_first)),
    )
    value = factors[0] * means[0] + factors[1] * means[1]
    return interval(value, spread, sum(bounds) / 2, bounds)


SHARE = 0.1


def worst_decile(values: ArrayLike, users: Ids) -> dict[str, float | None]:
    """Mean accuracy of the lowest tenth of users (CVaR), raw and shrunken; None without rows.

    With ``k = max(1, U / 10)`` and means sorted upward, ``Σ_j min(1, max(0, k - j)) m_(j) / k``
    for j = 0, 1, …: the user at the border counts in part.

    >>> users = list(range(15))
    >>> worst_decile([0, 1] + [1] * 13, users)["raw"]
    0.3333333333333333
    """
    raw, shrunken = user_means(values, users)
    return {"raw": _lowest(raw), "shrunken": _lowest(shrunken)}


def user_means(values: ArrayLike, users: Ids) -> tuple[FloatArray, FloatArray]:
    """Accuracy of each user, raw and by normal-normal empirical Bayes (method of moments).

    ```
    m_u user mean, n_u rows, μ = Σ n_u m_u / N
    σ² = Σ_i (x_i - m_u(i))² / (N - U)                                within users, pooled
    τ² = max(0, (Σ_u n_u (m_u - μ)² - (U - 1) σ²) / (N - Σ_u n_u²/N))  between users
    shrunken_u = μ + w_u (m_u - μ),   w_u = τ² / (τ² + σ² / n_u)
    ```

    Where no user has two rows, nothing tells users from luck and every w_u is 0.
    """
    x, codes, names = scored_rows(vector(values, UNIT), users)
    if not x.size:
        return np.empty(0), np.empty(0)
    n, units, counts = x.size, len(names), np.bincount(codes)
    raw, overall = sums(codes, x, units) / counts, float(x.mean())
    spare = n - float(counts @ counts) / n
    if n == units or spare <= 0:
        return raw, np.full(units, overall)
    around = x - raw[codes]
    within = float(around @ around) / (n - units)
    between = (float(counts @ (raw - overall) ** 2) - (units - 1) * within) / spare
    weight = between / (between + within / counts) if between > 0 else 0.0
    return raw, overall + weight * (raw - overall)


def _lowest(means: FloatArray) -> float | None:
    if not means.size:
        return None
    k = max(1.0, SHARE * means.size)
    weights = np.clip(k - np.arange(means.size), 0.0, 1.0)
    return float(weights @ np.sort(means)) / k


@dataclass(frozen=True, slots=True, eq=False)
class Units:
    """Rows that count, alone or in couples, and the clusters of these units."""

    rows: Columns
    """Of each unit its row, or both its rows."""
    clusters: Clusters

    @classmethod
    def of(
        cls,
        users: Ids,
        questions: Ids | None,
        usable: NDArray[np.bool_],
        mirrors: Sequence[int] | IntArray | None = None,
    ) -> Units:
        """Gather the units of the usable rows.

        With ``mirrors``, the number of each row's mirrored row, units are couples, and a couple of
        which one row is not usable does not count.

        >>> usable = np.array([True, True, False])
        >>> users, questions = ["ann", "bob", "cy"], ["milk?", "milk?", "tea?"]
        >>> Units.of(users, questions, usable).clusters.items.unit
        'questions'
        >>> Units.of(["ann", "ann", "cy"], questions, usable).clusters.items
        >>> Units.of(["ann", "bob"], None, usable[:2], [1, 0]).clusters.users
        (array([0]), array([1]))
        """
        same_length(rows=usable, users=users, questions=users if questions is None else questions)
        codes = id_codes(users)[0]
        rows: Columns = (np.flatnonzero(usable),)
        if mirrors is not None:
            mirror = _mirrors(mirrors, codes)
            first = np.flatnonzero(usable & usable[mirror] & (np.arange(mirror.size) < mirror))
            rows = first, mirror[first]
        question = None if questions is None else id_codes(questions)[0][rows[0]]
        return cls(rows, Clusters.of(*(codes[side] for side in rows), questions=question))

    def within(self, rows: NDArray[np.bool_]) -> Units:
        """Return the units all of whose rows are among these."""
        inside = np.logical_and.reduce([rows[side] for side in self.rows])
        return Units(tuple(side[inside] for side in self.rows), self.clusters.take(inside))

    def values(self, of_rows: FloatArray) -> FloatArray:
        """Value of each unit: of its row, or the mean of its two rows; of shape (rows, …)."""
        first, *second = (of_rows[side] for side in self.rows)
        return (first + second[0]) / 2 if second else first


def level(values: FloatArray, clusters: Clusters, bounds: Bounds) -> Estimate:
    """Mean quality of units; no p.

    >>> pairs = Clusters.of(["ann", "ann", "bob", "cem", "dan"])
    >>> round(level(np.array([0.2, 0.4, 0.6, 0.5, 0.7]), pairs, (0.0, 1.0)).value, 2)
    0.48
    """
    if not values.size:
        return Estimate()
    lo, hi = bounds
    # No value is a hypothesis here: one that the mean does not have gives no point interval. But
    # of couples the middle is one, that of a scorer which is blind to the user.
    null = lo if float(values.mean()) > lo + ROUNDING * (hi - lo) else hi
    if clusters.couples:
        null = (lo + hi) / 2
    estimate = clustered_mean(np.clip(values, lo, hi), clusters, null=null, bounds=bounds)
    return replace(estimate, p=None)


def moved_by(values: FloatArray, clusters: Clusters, width: float, seed: int) -> Estimate:
    """Mean of differences in [-width, width]; p by sign flips of the users' sums.

    Where users share questions, or units are couples, these sums are not independent, and p is that
    of the interval's t.
    """
    # What rounding leaves of equal values is no difference, and must not be tested as one.
    values = np.where(np.abs(values) <= ROUNDING * width, 0.0, np.clip(values, -width, width))
    estimate = clustered_mean(values, clusters, null=0.0, bounds=(-width, width))
    if clusters.couples or clusters.items is not None:
        return estimate
    return replace(estimate, p=sign_flip_test(values, clusters.users[0], seed))


def unbounded(values: FloatArray) -> float:
    """Bound of values without bounds: so far away that nothing is ever clipped."""
    return 1e3 * max(1.0, float(np.abs(values[~np.isnan(values)]).max(initial=0.0)))


def _mirrors(mirrors: Sequence[int] | IntArray, users: IntArray) -> IntArray:
    mirror = np.asarray(mirrors, dtype=np.int64)
    same_length(mirrors=mirror, users=users)
    n = mirror.size
    if bool(np.any((mirror < 0) | (mirror >= n))) or bool(np.any(mirror[mirror] != np.arange(n))):
        raise ValueError("mirrors: each row's mirrored row must name that row as its own")
    if bool(np.any(users[mirror] == users)):
        raise ValueError("mirrors: the two rows of a couple need two different users")
    return mirror
