"""Accuracy with the taste for length taken out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from palate.metrics.arrays import FloatArray, Ids, same_length, vector
from palate.metrics.clusters import Clusters
from palate.metrics.estimates import ROUNDING, UNIT, Estimate, interval
from palate.metrics.jackknife import combined, jackknife, ratio
from palate.metrics.means import scored

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True, slots=True)
class LengthControlled:
    """Mean of the accuracies where chosen is longer and where it is shorter."""

    estimate: Estimate
    """``n`` counts the rows of unequal length; all null where either side is empty."""
    longer: float | None
    """Accuracy where chosen is longer."""
    shorter: float | None
    """Accuracy where chosen is shorter."""
    n_longer: int
    n_shorter: int
    n_equal: int
    """Rows of equal length, left out."""


def length_controlled(
    values: ArrayLike,
    chosen_length: ArrayLike,
    rejected_length: ArrayLike,
    clusters: Ids | Clusters,
) -> LengthControlled:
    """Mean of the accuracy where chosen is longer and where it is shorter, with an interval.

    ``θ = (A_longer + A_shorter) / 2``, so a scorer that only reads length gets 0.5. The jackknife
    computes both accuracies anew; a row weighs ``1/N_longer`` or ``1/N_shorter``. No interval where
    one user or question holds a whole side.

    Args:
        values: outcomes in [0, 1], shape (rows,); NaN rows are left out.
        chosen_length: length of each chosen response, in any unit.
        rejected_length: length of each rejected response, in the same unit.
        clusters: the user id of each row, or `Clusters`.

    Raises:
        ValueError: for unequal lengths of the columns, a NaN length, or a value outside of [0, 1].

    Example:
        >>> lc = length_controlled([1, 1, 0, 1], [9, 8, 3, 4], [5, 5, 5, 4], ["a", "b", "c", "d"])
        >>> lc.estimate.value, lc.longer, lc.shorter, lc.n_equal
        (0.5, 1.0, 0.0, 1)
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
    sides = [float(x[side].mean()) if side.any() else None for side in (longer, ~longer)]
    return LengthControlled(
        estimate=_estimate(x, longer, rows),
        longer=sides[0],
        shorter=sides[1],
        n_longer=int(longer.sum()),
        n_shorter=int((~longer).sum()),
        n_equal=int(np.count_nonzero(there & equal)),
    )


def _estimate(x: FloatArray, longer: NDArray[np.bool_], rows: Clusters) -> Estimate:
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
