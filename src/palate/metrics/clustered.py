"""Means of rows that come in users: the user jackknife.

```
e_i = x_i - xbar,  S_u = Σ_{i of u} e_i,  n_u rows of user u,  N = Σ n_u,  U users
V = ((U - 1)/U) Σ_u (S_u / (N - n_u))²,   U_eff = N² / Σ_u n_u²,   t with U_eff - 1
```

``-S_u / (N - n_u)`` is what the mean moves when user u is left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from palate.metrics.arrays import FloatArray, Ids, IntArray, scored_rows, sums, vector
from palate.metrics.estimates import ROUNDING, UNIT, Estimate, Spread, interval, nothing

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


def user_mean(
    values: ArrayLike, users: Ids, *, null: float = 0.5, bounds: tuple[float, float] = UNIT
) -> Estimate:
    """Mean over rows (micro), with the user jackknife interval.

    Args:
        values: shape (rows,), within ``bounds``; NaN rows are unscored and left out.
        users: the user id of each row.
        null: the value that p tests against.
        bounds: the range of the values, to which the interval is clipped.

    Raises:
        ValueError: for unequal lengths, a value out of bounds, or a NaN user id.

    Example:
        >>> e = user_mean([1, 1, 0, 1, 1, 0], ["a", "a", "b", "b", "c", "c"])
        >>> round(e.value, 3), round(e.se, 3), e.n, e.n_units, e.df
        (0.667, 0.167, 6, 3, 2.0)
    """
    x, (codes,), names = scored_rows(vector(values, bounds=bounds), users)
    return _estimate(x, codes, len(names), null=null, bounds=bounds)


def macro_mean(
    values: ArrayLike, users: Ids, *, null: float = 0.5, bounds: tuple[float, float] = UNIT
) -> Estimate:
    """Mean over users of each user's mean: ``user_mean`` on user means with n_u = 1.

    The variance is then the classical ``Σ_u (m_u - mbar)² / (U (U - 1))``. ``n`` counts rows.

    Raises:
        ValueError: as ``user_mean``.

    Example:
        >>> e = macro_mean([1, 1, 0, 1, 0], ["a", "a", "a", "b", "c"])
        >>> round(e.value, 4), round(e.se, 4), e.n, e.n_units
        (0.5556, 0.294, 5, 3)
    """
    x, (codes,), names = scored_rows(vector(values, bounds=bounds), users)
    if not x.size:
        return nothing()
    units = len(names)
    means = sums(codes, x, units) / np.bincount(codes, minlength=units)
    # A mean of values in bounds can leave them by one rounding step.
    means = np.clip(means, *bounds)
    return _estimate(means, np.arange(units), units, null=null, bounds=bounds, n=x.size)


def effective_units(counts: ArrayLike) -> float:
    """Effective number of units, ``U_eff = (Σ_u n_u)² / Σ_u n_u²``; 0 without rows.

    U for equal counts, towards 1 as one unit takes over.

    Raises:
        ValueError: for a negative or NaN count.

    Example:
        >>> effective_units([5, 5, 5, 5]), round(effective_units([97, 1, 1, 1]), 3)
        (4.0, 1.062)
    """
    n = vector(counts)
    if not bool(np.all(n >= 0)):
        raise ValueError("counts must be 0 or more")
    squares = float(n @ n)
    return float(n.sum()) ** 2 / squares if squares else 0.0


def jackknife_variance(residual_sums: FloatArray, counts: FloatArray) -> float | None:
    """Variance of a mean by leaving one user out: ``((U - 1)/U) Σ_u (S_u / (N - n_u))²``.

    None where one user holds every row.

    Example:
        >>> jackknife_variance(np.array([1.0, -1.0]), np.array([2.0, 2.0]))
        0.25
    """
    units, left = counts.size, counts.sum() - counts
    if not bool(np.all(left > 0)):
        return None
    moved = residual_sums / left
    return (units - 1) / units * float(moved @ moved)


def _estimate(
    x: FloatArray,
    codes: IntArray,
    units: int,
    *,
    null: float,
    bounds: tuple[float, float],
    n: int | None = None,
) -> Estimate:
    if not x.size:
        return nothing()
    mean = float(x.mean())
    residuals = x - mean
    counts = np.bincount(codes, minlength=units).astype(np.float64)
    spread = Spread(
        variance=jackknife_variance(sums(codes, residuals, units), counts),
        u_eff=effective_units(counts),
        constant=bool(np.abs(residuals).max() <= ROUNDING * (bounds[1] - bounds[0])),
    )
    rows = x.size if n is None else n
    return interval(mean, spread, n=rows, n_units=units, null=null, bounds=bounds)
