"""Means of couples that share users: the dyadic user jackknife.

Couple c = (a_c, b_c); two couples depend on each other as soon as they share a user.

```
e_c = x_c - xbar
S_u = Σ_{c: u in {a_c, b_c}} e_c    n_u couples with user u
T_d = Σ_{c in d} e_c                n_d couples of the unordered dyad d
V_J = Σ_u (S_u / (C - n_u))² - Σ_d (T_d / (C - n_d))²
V_D = Σ_d T_d² / C²
V   = max(V_J, V_D),   U_eff = (Σ_u n_u)² / Σ_u n_u²,   t with U_eff - 1
```
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from palate.metrics.arrays import FloatArray, Ids, scored_rows, sums, vector
from palate.metrics.clustered import effective_units
from palate.metrics.estimates import ROUNDING, UNIT, Estimate, Spread, interval, nothing

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


def couple_mean(
    values: ArrayLike,
    a: Ids,
    b: Ids,
    *,
    null: float = 0.5,
    bounds: tuple[float, float] = UNIT,
) -> Estimate:
    """Mean over couples, with the dyadic user jackknife interval.

    Args:
        values: shape (couples,), within ``bounds``; NaN couples are left out.
        a: the first user of each couple.
        b: the second user of each couple; which is first does not matter.
        null: the value that p tests against.
        bounds: the range of the values, to which the interval is clipped.

    Raises:
        ValueError: for unequal lengths, a value out of bounds, a NaN user id, or a couple of a
            user with themselves.

    Example:
        A scorer that ignores the user is right once in every couple:

        >>> e = couple_mean([0.5, 0.5, 0.5], ["ann", "bob", "cy"], ["bob", "cy", "ann"])
        >>> e.value, e.low, e.high, e.p
        (0.5, 0.5, 0.5, 1.0)
        >>> e = couple_mean([1, 0.5, 0.5, 1], ["a", "b", "c", "d"], ["b", "c", "d", "e"])
        >>> e.value, round(e.se, 3), e.n, e.n_units
        (0.75, 0.22, 4, 5)
    """
    couples = _couples(values, a, b, bounds)
    x = couples.values
    if not x.size:
        return nothing()
    mean = float(x.mean())
    spread = Spread(
        variance=_variance(couples),
        u_eff=effective_units(couples.user_counts),
        constant=bool(np.abs(x - mean).max() <= ROUNDING * (bounds[1] - bounds[0])),
    )
    n_units = couples.user_counts.size
    return interval(mean, spread, n=x.size, n_units=n_units, null=null, bounds=bounds)


@dataclass(frozen=True, slots=True, eq=False)
class _Couples:
    values: FloatArray
    user_sums: FloatArray
    user_counts: FloatArray
    dyad_sums: FloatArray
    dyad_counts: FloatArray


def _couples(values: ArrayLike, a: Ids, b: Ids, bounds: tuple[float, float]) -> _Couples:
    x, (first, second), names = scored_rows(vector(values, bounds=bounds), a, b)
    if bool(np.any(first == second)):
        raise ValueError("a couple needs two different users")
    units = len(names)
    residuals = x - x.mean() if x.size else x
    keys = np.minimum(first, second) * units + np.maximum(first, second)
    _, dyads = np.unique(keys, return_inverse=True)
    return _Couples(
        values=x,
        user_sums=sums(first, residuals, units) + sums(second, residuals, units),
        user_counts=np.bincount(np.concatenate([first, second])).astype(np.float64),
        dyad_sums=sums(dyads, residuals, 0),
        dyad_counts=np.bincount(dyads).astype(np.float64),
    )


def _variance(couples: _Couples) -> float | None:
    n = couples.values.size
    if couples.user_counts.max() >= n:
        return None
    user_moves = couples.user_sums / (n - couples.user_counts)
    dyad_moves = couples.dyad_sums / (n - couples.dyad_counts)
    jackknife = float(user_moves @ user_moves - dyad_moves @ dyad_moves)
    # Negative user sums can cancel to nothing; dyads alone are then the floor.
    by_dyad = float(couples.dyad_sums @ couples.dyad_sums) / n**2
    return max(jackknife, by_dyad)
