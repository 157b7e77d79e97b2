"""A figure with its 95 % interval and p-value, and the rules for when there is none.

The rules, for values in ``[lo, hi]`` and a null value ``x0`` (first that applies):

1. no rows: all fields null.
2. every residual 0 and ``xbar = x0``: the point interval, p = 1 (a blind scorer on couples).
3. every residual 0 and ``xbar`` at a bound: the far end holds the mean of any variable in
   ``[lo, hi]`` that is at the bound ``U_eff`` times out of ``U_eff``. On the unit scale
   ``y = (x - lo)/(hi - lo)``: ``xbar = hi`` gives low ``y = 0.025^(1/U_eff)``, ``xbar = lo`` gives
   high ``y = 1 - 0.025^(1/U_eff)``, and p is the p-value of that same bound, so that p < 0.05
   exactly where the interval leaves ``x0`` out. For gains (bounds -1 and 1) this is the rule
   for ``(x + 1)/2``.
4. one cluster holds all rows, ``U_eff ≤ 2``, or the variance is 0 although 2 and 3 do not apply,
   which is no evidence of precision: low, high and p are null, and a note says why.
5. otherwise t with ``U_eff - 1`` degrees of freedom (``I_eff - 1`` where shared items are fewer),
   clipped to ``[lo, hi]``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from scipy.special import stdtr, stdtrit

TAIL = 0.025
POWER = 0.8
ROUNDING = 1e-12
UNIT = (0.0, 1.0)
GAIN = (-1.0, 1.0)


@dataclass(frozen=True, slots=True)
class Estimate:
    """One figure; None means not defined, and no field is ever NaN."""

    value: float | None = None
    """The point estimate; None without rows."""
    low: float | None = None
    """Lower end of the 95 % interval."""
    high: float | None = None
    """Upper end of the 95 % interval."""
    n: int = 0
    """Scored rows, or couples."""
    n_units: int = 0
    """Distinct users among them."""
    se: float | None = None
    """Standard error; 0 for a point interval."""
    df: float | None = None
    """Degrees of freedom, U_eff - 1; None where no t was used."""
    p: float | None = None
    """Two-sided p-value against the null value."""
    note: str | None = None
    """Why a value has no interval; None where it has one."""


@dataclass(frozen=True, slots=True)
class Spread:
    """How uncertain a figure is, by the jackknife."""

    variance: float | None
    """None where one cluster holds everything, so that leaving it out leaves nothing."""
    effective: float
    """Effective number of users, or of items where these are fewer."""
    constant: bool
    """True where every residual is 0."""
    unit: str = "users"
    """What the effective number counts: ``users``, ``questions`` or ``texts``."""


def interval(
    value: float,
    spread: Spread,
    *,
    n: int,
    n_units: int,
    null: float = 0.5,
    bounds: tuple[float, float] = UNIT,
) -> Estimate:
    """Put the 95 % interval and the p-value to a mean, by the rules of this module.

    ``value ± t_{0.975, U_eff - 1} √V``, clipped; ``p = 2 P(t_{U_eff - 1} > |value - null| / √V)``.
    Raises `ValueError` if ``null`` is outside of ``bounds``.

    >>> e = interval(0.6, Spread(0.01, 11.0, False), n=40, n_units=12)
    >>> round(e.low, 3), round(e.high, 3), e.df, round(e.p, 3)
    (0.377, 0.823, 10.0, 0.341)
    """
    lo, hi = bounds
    if not lo <= null <= hi:
        raise ValueError(f"the null value {null:g} is outside of [{lo:g}, {hi:g}]")
    bare, variance = Estimate(value, n=n, n_units=n_units), spread.variance
    if spread.constant:
        return _without_spread(bare, value, spread, null, bounds)
    if variance is None or spread.effective <= 2 or variance <= (ROUNDING * (hi - lo)) ** 2:
        return replace(bare, note=_no_interval(spread))
    se, df = math.sqrt(variance), spread.effective - 1
    half = float(stdtrit(df, 1 - TAIL)) * se
    p = min(1.0, 2 * float(stdtr(df, -abs(value - null) / se)))
    return replace(bare, low=max(lo, value - half), high=min(hi, value + half), se=se, df=df, p=p)


def minimum_detectable_effect(se: float | None, df: float | None) -> float | None:
    """Smallest true difference from the null value that is found 8 times of 10 at p < 0.05.

    ``(t_{0.975, df} + t_{0.8, df}) · se`` of an `Estimate`, in its unit. None where either is None,
    as for estimates without a t interval.

    >>> round(minimum_detectable_effect(0.01, 100), 4)
    0.0283
    """
    if se is None or df is None:
        return None
    if not (se >= 0 and df > 0):
        raise ValueError(f"expected se >= 0 and df > 0, got se={se:g}, df={df:g}")
    return float(stdtrit(df, 1 - TAIL) + stdtrit(df, POWER)) * se


def _no_interval(spread: Spread) -> str:
    # An effective number is a ratio of integers: 2 is exact and needs no tolerance.
    if spread.effective <= 2:
        number = f"{spread.effective:.1f} effective {spread.unit}"
        return f"no interval: {number}, and more than 2 are needed"
    if spread.variance is None:
        return "no interval: one user, question or text holds all rows of a group"
    return "no interval: the jackknife variance is 0"


def _without_spread(
    bare: Estimate, value: float, spread: Spread, null: float, bounds: tuple[float, float]
) -> Estimate:
    effective = spread.effective
    lo, hi = bounds
    width = hi - lo
    tiny = ROUNDING * width
    if abs(value - null) <= tiny:
        return replace(bare, low=value, high=value, se=0.0, p=1.0)
    share, y0 = TAIL ** (1 / effective), (null - lo) / width
    if hi - value <= tiny:
        return replace(bare, low=lo + width * share, high=hi, p=min(1.0, 2 * y0**effective))
    if value - lo <= tiny:
        return replace(bare, low=lo, high=hi - width * share, p=min(1.0, 2 * (1 - y0) ** effective))
    if effective <= 2:  # then nothing can differ from another
        return replace(bare, note=_no_interval(spread))
    return replace(bare, note="no interval: all values are alike")
