"""Means over rows, over mirrored couples and over users, with their jackknife intervals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from palate.metrics.arrays import FloatArray, Ids, same_length, sums, vector
from palate.metrics.clusters import Clusters
from palate.metrics.estimates import GAIN, ROUNDING, UNIT, Estimate, interval
from palate.metrics.jackknife import jackknife, ratio

Bounds = tuple[float, float]


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
    x, rows = scored(vector(values, bounds=bounds), clusters)
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
    x, rows = scored(vector(values, bounds=bounds), clusters)
    if not x.size:
        return Estimate()
    users = rows.user
    counts = np.bincount(users)
    # A mean of values in bounds can leave them by one rounding step.
    means = np.clip(sums(users, x, counts.size) / counts, *bounds)
    mean = float(means.mean())
    if rows.items is not None:
        return _mean(x, 1 / counts[users], mean, rows, null, bounds)
    each = Clusters((np.arange(counts.size),))
    return replace(_mean(means, np.ones_like(means), mean, each, null, bounds), n=x.size)


def paired_difference(x: ArrayLike, y: ArrayLike, clusters: Ids | Clusters) -> Estimate:
    """Mean of ``x_i - y_i`` over the rows, or couples, scored in both, in [-1, 1].

    >>> e = paired_difference([1, 1, 0, 1], [0, 1, 0, 0], ["a", "b", "c", "d"])
    >>> e.value, round(e.low, 2), e.high
    (0.5, -0.42, 1.0)
    """
    first, second = vector(x, bounds=UNIT), vector(y, bounds=UNIT)
    same_length(x=first, y=second)
    return clustered_mean(first - second, clusters, null=0.0, bounds=GAIN)


def scored(values: FloatArray, clusters: Ids | Clusters) -> tuple[FloatArray, Clusters]:
    """Leave out the NaN rows.

    >>> scored(np.array([1.0, np.nan, 0.0]), ["ann", "bob", "ann"])[0].tolist()
    [1.0, 0.0]
    """
    rows = Clusters.of(clusters)
    same_length(values=values, users=rows.users[0])
    there = ~np.isnan(values)
    return (values, rows) if there.all() else (values[there], rows.take(there))


def _mean(
    x: FloatArray, weights: FloatArray, mean: float, rows: Clusters, null: float, bounds: Bounds
) -> Estimate:
    constant = bool(np.abs(x - mean).max() <= ROUNDING * (bounds[1] - bounds[0]))
    spread = jackknife(ratio(x * weights, weights), weights, rows, constant=constant)
    return interval(mean, spread, n=x.size, n_units=rows.n_users, null=null, bounds=bounds)
