"""Figures of two groups of rows in which users may overlap: gaps, and control of length."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from palate.metrics.arrays import FloatArray, Ids, same_length, vector
from palate.metrics.clusters import Clusters
from palate.metrics.estimates import GAIN, ROUNDING, UNIT, Estimate, interval
from palate.metrics.jackknife import combined, jackknife, ratio
from palate.metrics.means import Bounds, scored


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
    given, first = vector(values, bounds=UNIT), np.asarray(in_first, dtype=bool)
    same_length(values=given, in_first=first)
    x, rows = scored(given, clusters)
    first = first[~np.isnan(given)]
    rows = replace(rows, strata=first.astype(np.int64))
    gap = _of_two_groups(x, first, rows, [1.0, -1.0], GAIN)
    if gap.value is not None and float(np.ptp(x)) <= ROUNDING:
        # Unlike a blind scorer's gain, that is nothing by construction.
        note = "no interval: all values are alike"
        return Estimate(0.0, n=x.size, n_units=gap.n_units, note=note)
    return gap


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
    given = vector(values, bounds=UNIT)
    chosen, rejected = vector(chosen_length), vector(rejected_length)
    same_length(values=given, chosen_length=chosen, rejected_length=rejected)
    longer_by = chosen - rejected
    if bool(np.isnan(longer_by).any()):
        raise ValueError("lengths must be finite numbers")
    unequal = np.where(longer_by == 0, np.nan, given)
    x, rows = scored(unequal, clusters)
    return _of_two_groups(x, longer_by[~np.isnan(unequal)] > 0, rows, [0.5, 0.5], UNIT)


def _of_two_groups(
    x: FloatArray, in_first: NDArray[np.bool_], rows: Clusters, factors: list[float], bounds: Bounds
) -> Estimate:
    """Sum of the two groups' means, each times its factor; p against the middle of the bounds."""
    n, n_units = x.size, rows.n_users if x.size else 0
    if in_first.all() or not in_first.any():
        return Estimate(n=n, n_units=n_units)
    groups = [group.astype(np.float64) for group in (in_first, ~in_first)]
    means = [float(x[group].mean()) for group in (in_first, ~in_first)]
    spread = jackknife(
        combined(*((f, ratio(x * w, w)) for f, w in zip(factors, groups, strict=True))),
        sum((w / w.sum() for w in groups), np.zeros(n)),
        rows,
        constant=all(float(np.ptp(x[group])) <= ROUNDING for group in (in_first, ~in_first)),
    )
    value = factors[0] * means[0] + factors[1] * means[1]
    return interval(value, spread, n=n, n_units=n_units, null=sum(bounds) / 2, bounds=bounds)
