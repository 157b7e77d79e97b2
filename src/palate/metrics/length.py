"""Accuracy with the taste for length taken out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from palate.metrics.arrays import FloatArray, Ids, IntArray, same_length, scored_rows, sums, vector
from palate.metrics.clustered import effective_units
from palate.metrics.estimates import ROUNDING, UNIT, Estimate, Spread, interval

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


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
    values: ArrayLike, chosen_length: ArrayLike, rejected_length: ArrayLike, users: Ids
) -> LengthControlled:
    """Mean of the accuracy where chosen is longer and where it is shorter, with an interval.

    ``θ = (A_longer + A_shorter) / 2``, so a scorer that only reads length gets 0.5. By the user
    jackknife ``V = ((U - 1)/U) Σ_u (θ_(-u) - θ)²`` with both accuracies recomputed without user
    u; ``U_eff = (Σ_u w_u)² / Σ_u w_u²`` where ``w_u = n_u,longer / N_longer + n_u,shorter /
    N_shorter`` is the weight of user u in θ. No interval where one user holds a whole side.

    Args:
        values: outcomes in [0, 1], shape (rows,); NaN rows are left out.
        chosen_length: length of each chosen response, in any unit.
        rejected_length: length of each rejected response, in the same unit.
        users: the user id of each row.

    Raises:
        ValueError: for unequal lengths of the columns, a NaN length, or a value outside of [0, 1].

    Example:
        >>> lc = length_controlled([1, 1, 0, 1], [9, 8, 3, 4], [5, 5, 5, 4], ["a", "b", "c", "d"])
        >>> lc.estimate.value, lc.longer, lc.shorter, lc.n_equal
        (0.5, 1.0, 0.0, 1)
    """
    x = vector(values, bounds=UNIT)
    chosen, rejected = vector(chosen_length), vector(rejected_length)
    same_length(values=x, chosen_length=chosen, rejected_length=rejected, users=users)
    longer_by = chosen - rejected
    if bool(np.isnan(longer_by).any()):
        raise ValueError("lengths must be finite numbers")
    scored, equal = ~np.isnan(x), longer_by == 0
    kept, (codes,), names = scored_rows(np.where(equal, np.nan, x), users)
    is_longer = (longer_by > 0)[scored & ~equal]
    longer = _side(kept[is_longer], codes[is_longer], len(names))
    shorter = _side(kept[~is_longer], codes[~is_longer], len(names))
    return LengthControlled(
        estimate=_estimate(longer, shorter),
        longer=longer.mean,
        shorter=shorter.mean,
        n_longer=longer.n,
        n_shorter=shorter.n,
        n_equal=int(np.count_nonzero(scored & equal)),
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Side:
    n: int
    mean: float | None
    user_sums: FloatArray
    user_counts: FloatArray
    constant: bool

    def without_each(self) -> FloatArray:
        """Mean of this side with each user left out, shape (users,)."""
        rest: FloatArray = self.user_sums.sum() - self.user_sums
        return rest / (self.n - self.user_counts)


def _side(x: FloatArray, codes: IntArray, units: int) -> _Side:
    mean = float(x.mean()) if x.size else None
    constant = mean is None or bool(np.abs(x - mean).max() <= ROUNDING)
    counts = np.bincount(codes, minlength=units).astype(np.float64)
    return _Side(x.size, mean, sums(codes, x, units), counts, constant)


def _estimate(longer: _Side, shorter: _Side) -> Estimate:
    n, units = longer.n + shorter.n, longer.user_counts.size
    if longer.mean is None or shorter.mean is None:
        return Estimate(None, None, None, n, units)
    value = (longer.mean + shorter.mean) / 2
    variance = None
    if all(side.user_counts.max() < side.n for side in (longer, shorter)):
        moved = (longer.without_each() + shorter.without_each()) / 2 - value
        variance = (units - 1) / units * float(moved @ moved)
    weights = longer.user_counts / longer.n + shorter.user_counts / shorter.n
    spread = Spread(variance, effective_units(weights), longer.constant and shorter.constant)
    return interval(value, spread, n=n, n_units=units)
