"""How far two groups of rows lie apart, where a user may have rows in both.

```
T_gu, n_gu          sum and number of the scored rows of user u in group g;  m_g = T_g / N_g
d = m_a - m_b       d_(u) the same without user u, over the U users of either group
V = ((U - 1)/U) Σ_u (d_(u) - d)²
w_u = n_au / N_a + n_bu / N_b,   U_eff = (Σ_u w_u)² / Σ_u w_u²,   t with U_eff - 1
```

A user who is in both groups moves both means at once, so what they share cancels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from palate.metrics.arrays import FloatArray, Ids, same_length, scored_rows, sums, vector
from palate.metrics.clustered import effective_units
from palate.metrics.estimates import GAIN, ROUNDING, UNIT, Estimate, Spread, interval

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


def group_gap(values: ArrayLike, in_first: ArrayLike, users: Ids) -> Estimate:
    """Difference of the means of two groups of rows, with the user jackknife in [-1, 1].

    The value is None where a group has no scored row; low, high and p are None where one user
    holds all rows of a group, or where all rows have one value.

    Args:
        values: values in [0, 1], shape (rows,); NaN rows are left out.
        in_first: true for the rows of the first group, false for those of the second.
        users: the user id of each row.

    Raises:
        ValueError: for unequal lengths or a value outside of [0, 1].

    Example:
        >>> e = group_gap([1, 1, 0, 1, 0, 0], [1, 1, 1, 0, 0, 0], ["a", "b", "c", "d", "e", "f"])
        >>> round(e.value, 3), round(e.se, 3), e.n, e.n_units, e.df
        (0.333, 0.527, 6, 6, 5.0)
    """
    x, first = vector(values, bounds=UNIT), np.asarray(in_first, dtype=bool)
    same_length(values=x, in_first=first, users=users)
    first = first[~np.isnan(x)]
    kept, (codes,), names = scored_rows(x, users)
    n, units = kept.size, len(names)
    sides = [_side(kept[mask], codes[mask], units) for mask in (first, ~first)]
    if not all(counts.sum() for _, counts, _ in sides):
        return Estimate(None, None, None, n, units)
    (mean_a, counts_a, rest_a), (mean_b, counts_b, rest_b) = sides
    constant = all(np.ptp(kept[mask]) <= ROUNDING for mask in (first, ~first))
    if constant and abs(mean_a - mean_b) <= ROUNDING:
        # All rows alike: unlike a blind scorer's gain, that is nothing by construction.
        return Estimate(0.0, None, None, n, units)
    variance = None
    if rest_a is not None and rest_b is not None:
        moved = (rest_a - rest_b) - (mean_a - mean_b)
        variance = (units - 1) / units * float(moved @ moved)
    weights = counts_a / counts_a.sum() + counts_b / counts_b.sum()
    spread = Spread(variance, effective_units(weights), constant)
    return interval(mean_a - mean_b, spread, n=n, n_units=units, null=0.0, bounds=GAIN)


def _side(
    x: FloatArray, codes: np.typing.NDArray[np.int64], units: int
) -> tuple[float, FloatArray, FloatArray | None]:
    # Mean, rows of each user, and the mean without each user (None where one holds every row).
    counts = np.bincount(codes, minlength=units).astype(np.float64)
    if not x.size:
        return 0.0, counts, None
    left = x.size - counts
    rest = (x.sum() - sums(codes, x, units)) / left if bool(np.all(left > 0)) else None
    return float(x.mean()), counts, rest
