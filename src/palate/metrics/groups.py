"""How far two groups of rows lie apart, where a user may have rows in both."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from palate.metrics.arrays import Ids, same_length, vector
from palate.metrics.clusters import Clusters
from palate.metrics.estimates import GAIN, ROUNDING, UNIT, Estimate, interval
from palate.metrics.jackknife import combined, jackknife, ratio
from palate.metrics.means import scored

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


def group_gap(values: ArrayLike, in_first: ArrayLike, clusters: Ids | Clusters) -> Estimate:
    """Difference of the means of two groups of rows, ``d = m_a - m_b``, in [-1, 1].

    The jackknife leaves a user (a question) out of both groups at once, so that what they do to
    both cancels; row weights are ``1/N_a`` and ``1/N_b``. The value is None where a group has no
    scored row; low, high and p are None where one user or question holds a group, or where all rows
    have one value.

    Args:
        values: values in [0, 1], shape (rows,); NaN rows are left out.
        in_first: true for the rows of the first group, false for those of the second.
        clusters: the user id of each row, or `Clusters`.

    Raises:
        ValueError: for unequal lengths or a value outside of [0, 1].

    Example:
        >>> e = group_gap([1, 1, 0, 1, 0, 0], [1, 1, 1, 0, 0, 0], ["a", "b", "c", "d", "e", "f"])
        >>> round(e.value, 3), round(e.se, 3), e.n, e.n_units, e.df
        (0.333, 0.527, 6, 6, 5.0)
    """
    given, first = vector(values, bounds=UNIT), np.asarray(in_first, dtype=bool)
    rows = Clusters.of(clusters)
    same_length(values=given, in_first=first, users=rows.users[0])
    first = first[~np.isnan(given)]
    x, rows = scored(given, rows)
    n, units = x.size, rows.n_users if x.size else 0
    if first.all() or not first.any():
        return Estimate(None, None, None, n, units)
    value = float(x[first].mean()) - float(x[~first].mean())
    constant = all(float(np.ptp(x[group])) <= ROUNDING for group in (first, ~first))
    if constant and abs(value) <= ROUNDING:
        # All rows alike: unlike a blind scorer's gain, that is nothing by construction.
        return Estimate(0.0, None, None, n, units, note="no interval: all values are alike")
    in_a, in_b = first.astype(np.float64), (~first).astype(np.float64)
    spread = jackknife(
        combined((1.0, ratio(x * in_a, in_a)), (-1.0, ratio(x * in_b, in_b))),
        in_a / in_a.sum() + in_b / in_b.sum(),
        replace(rows, strata=first.astype(np.int64)),
        constant=constant,
    )
    return interval(value, spread, n=n, n_units=units, null=0.0, bounds=GAIN)
