"""Accuracy with the taste for length taken out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from palate.metrics.arrays import Ids, same_length, vector
from palate.metrics.clusters import Clusters
from palate.metrics.estimates import ROUNDING, UNIT, Estimate, interval
from palate.metrics.jackknife import combined, jackknife, ratio
from palate.metrics.means import scored

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


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

    Args:
        values: outcomes in [0, 1], shape (rows,); NaN rows are left out.
        chosen_length: length of each chosen response, in any unit.
        rejected_length: length of each rejected response, in the same unit.
        clusters: the user id of each row, or `Clusters`.

    Raises:
        ValueError: for unequal lengths of the columns, a NaN length, or a value outside of [0, 1].

    Example:
        >>> e = length_controlled([1, 1, 0, 1], [9, 8, 3, 4], [5, 5, 5, 4], ["a", "b", "c", "d"])
        >>> e.value, e.n
        (0.5, 3)
    """
    given = vector(values, bounds=UNIT)
    chosen, rejected = vector(chosen_length), vector(rejected_length)
    every = Clusters.of(clusters)
    same_length(values=given, chosen_length=chosen, rejected_length=rejected, users=every.users[0])
    longer_by = chosen - rejected
    if bool(np.isnan(longer_by).any()):
        raise ValueError("lengths must be finite numbers")
    there, equal = ~np.isnan(given), longer_by == 0
    x, rows = scored(np.where(equal, np.nan, given), every)
    longer = (longer_by > 0)[there & ~equal]
    n, units = x.size, rows.n_users if x.size else 0
    if longer.all() or not longer.any():
        return Estimate(None, None, None, n, units)
    value = float(x[longer].mean() + x[~longer].mean()) / 2
    is_longer, is_shorter = longer.astype(np.float64), (~longer).astype(np.float64)
    spread = jackknife(
        combined((0.5, ratio(x * is_longer, is_longer)), (0.5, ratio(x * is_shorter, is_shorter))),
        is_longer / is_longer.sum() + is_shorter / is_shorter.sum(),
        rows,
        constant=all(float(np.ptp(x[side])) <= ROUNDING for side in (longer, ~longer)),
    )
    return interval(value, spread, n=n, n_units=units)
