"""A figure with its 95 % interval and p-value, the rules for when there is none, and equivalence.

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
from typing import Literal

import numpy as np
from scipy.special import chdtri, ndtr, ndtri, stdtr, stdtrit

TAIL = 0.025
POWER = 0.8
ROUNDING = 1e-12
Bounds = tuple[float, float]
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
    n: int = 0
    """Rows, or couples."""
    n_units: int = 0
    """Distinct users among them."""


def interval(value: float, spread: Spread, null: float = 0.5, bounds: Bounds = UNIT) -> Estimate:
    """Put the 95 % interval and the p-value to a mean, by the rules of this module.

    ``value ± t_{0.975, U_eff - 1} √V``, clipped; ``p = 2 P(t_{U_eff - 1} > |value - null| / √V)``.
    Raises `ValueError` if ``null`` is outside of ``bounds``.

    >>> e = interval(0.6, Spread(0.01, 11.0, False, n=40, n_units=12))
    >>> round(e.low, 3), round(e.high, 3), e.df, round(e.p, 3)
    (0.377, 0.823, 10.0, 0.341)
    """
    lo, hi = bounds
    if not lo <= null <= hi:
        raise ValueError(f"the null value {null:g} is outside of [{lo:g}, {hi:g}]")
    bare, variance = Estimate(value, n=spread.n, n_units=spread.n_units), spread.variance
    if spread.constant:
        return _without_spread(bare, value, spread, null, bounds)
    if variance is None or spread.effective <= 2 or variance <= (ROUNDING * (hi - lo)) ** 2:
        return replace(bare, note=_no_interval(spread))
    se, df = math.sqrt(variance), spread.effective - 1
    half = float(stdtrit(df, 1 - TAIL)) * se
    p = min(1.0, 2 * float(stdtr(df, -abs(value - null) / se)))
    return replace(bare, low=max(lo, value - half), high=min(hi, value + half), se=se, df=df, p=p)


def share_of(part: Estimate, whole: Estimate, rest: Estimate) -> Estimate:
    """Share of one mean in the sum of two, ``part / whole``, with Fieller's interval: all r with
    ``(part - r whole)² ≤ t² (V_part - r (V_part + V_whole - V_rest) + r² V_whole)``.

    >>> three = [Estimate(value, se=0.02, df=60) for value in (0.1, 0.2, 0.1)]
    >>> share = share_of(*three)
    >>> share.value, round(share.low, 2), round(share.high, 2)
    (0.5, 0.32, 0.68)
    """
    bare = Estimate(n=whole.n, n_units=whole.n_units, note="no interval: the sum may be 0")
    p, w, df, of = part.value, whole.value, whole.df, (part.se, whole.se, rest.se)
    if p is None or not w or df is None or None in of:
        return bare
    t = float(stdtrit(df, 1 - TAIL)) ** 2
    v_part, v_whole, v_rest = (t * se**2 for se in of if se is not None)
    a, b, c = w**2 - v_whole, p * w - (v_part + v_whole - v_rest) / 2, p**2 - v_part
    if a <= 0 or b**2 < a * c:
        return replace(bare, value=p / w)
    root = math.sqrt(b**2 - a * c)
    return replace(bare, value=p / w, low=(b - root) / a, high=(b + root) / a, note=None)


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
    bare: Estimate, value: float, spread: Spread, null: float, bounds: Bounds
) -> Estimate:
    effective, (lo, hi) = spread.effective, bounds
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


LEVEL = 0.05
MARGIN = 0.05
QUANTILES = (np.arange(4096) + 0.5) / 4096
Z_NEEDED = float(ndtri(1 - LEVEL) + ndtri((1 + POWER) / 2))
"""1.645 + 1.282: each of both tests is passed with probability 0.9, so both with 0.8."""
NO_INTERVAL, ALL_ALIKE = "no interval", "all values are alike"


@dataclass(frozen=True, slots=True)
class Equivalence:
    """What a figure says of lying within a margin around its null value."""

    finding: Literal["shown", "refuted", "not shown"]
    """refuted: the whole 95 % interval lies beyond the margin on one side."""
    n: int
    """Rows or couples of the figure."""
    p: float | None = None
    """The larger p-value of both tests; None where there is no standard error."""
    n_needed: int | None = None
    """Rows or couples of the same kind that show it 8 times of 10 if the null value is true."""
    note: str | None = None
    """Why nothing could be tested; None where it was."""

    def words(self, unit: str = "pairs") -> str:
        """Return the finding, and what would be needed where nothing is shown.

        >>> Equivalence("not shown", 673, 0.58, 4270).words()
        'not shown: about 4,300 pairs needed'
        """
        if self.finding != "not shown":
            return self.finding
        if self.n_needed is None:
            return f"not shown: {self.note or NO_INTERVAL}"
        if self.n_needed <= self.n:
            return "not shown: the value is near the margin"
        return f"not shown: about {float(f'{self.n_needed:.2g}'):,.0f} {unit} needed"


def equivalence(estimate: Estimate, *, null: float = 0.5, margin: float = MARGIN) -> Equivalence:
    """Test that a figure is off its null value by less than the margin (TOST, level 0.05).

    ``p = max(P(t_df > (value - null + margin)/se), P(t_df < (value - null - margin)/se))``, and
    ``n_needed = n ((1.645 + 1.282) se / margin)²``. Values that are all alike have no t: their
    interval can refute, but shows nothing.

    Raises `ValueError` for a margin that is not above 0.

    >>> tested = equivalence(Estimate(0.51, 0.47, 0.55, n=800, n_units=90, se=0.02, df=60))
    >>> tested.finding, round(tested.p, 3), tested.n_needed
    ('shown', 0.025, 1097)
    """
    if not margin > 0:
        raise ValueError(f"expected a margin above 0, got {margin:g}")
    value, low, high, n = estimate.value, estimate.low, estimate.high, estimate.n
    if value is None or low is None or high is None:
        return Equivalence("not shown", n, note=NO_INTERVAL)
    bottom, top = null - margin, null + margin
    se, df = estimate.se, estimate.df
    p, needed, note = None, None, None
    if se is None or df is None or se == 0:
        note = ALL_ALIKE
    else:
        p = max(float(stdtr(df, (bottom - value) / se)), float(stdtr(df, (value - top) / se)))
        needed = math.ceil(n * (Z_NEEDED * se / margin) ** 2)
    if low > top or high < bottom:
        return Equivalence("refuted", n, p, needed, note)
    return Equivalence("shown" if p is not None and p < LEVEL else "not shown", n, p, needed, note)


def non_inferiority(
    loss: Estimate, *, margin: float, questions: float | None = None
) -> Equivalence:
    """Test that a loss of accuracy is below the margin (one-sided t, level 0.05).

    ``p = P(t_df < (loss + 1/q - margin)/s)``, ``s² = max(se², margin (1 - margin)/q)``, of q
    effective `questions` (rows by default): with one more lost, and the variance of a loss at the
    margin, few changes prove nothing. ``n_needed = n ((1.645 + 0.842) s/margin)²`` rows show a loss
    of 0 about 8 times of 10.

    >>> tested = non_inferiority(Estimate(0.01, -0.01, 0.03, n=800, se=0.01, df=90), margin=0.02)
    >>> tested.finding, round(tested.p, 3), tested.n_needed
    ('not shown', 0.192, 1237)
    """
    value, n = loss.value, loss.n
    if value is None or loss.low is None:
        return Equivalence("not shown", n, note=loss.note or NO_INTERVAL)
    q = questions or n
    s = math.sqrt(max((loss.se or 0.0) ** 2, margin * (1 - margin) / q))
    p = float(stdtr(loss.df or max(q - 1, 1), (value + 1 / q - margin) / s))
    needed = math.ceil(n * (float(ndtri(1 - LEVEL) + ndtri(POWER)) * s / margin) ** 2)
    return Equivalence("shown" if p < LEVEL else "not shown", n, p, needed)


def equivalence_power(
    raters: int,
    pairs: int,
    ratings_per_pair: float,
    *,
    margin: float,
    rater_sd: float,
    noise_sd: float = 0.9,
    pair_sd: float = 0.5,
) -> float:
    """Chance that `equivalence` shows a difference of 0, rated by several raters on several pairs.

    ``E_s max(0, 2 Φ((margin - t_{0.95, df} s)/se) - 1)``, ``s² = se² χ²_df / df``, with ``se² =
    noise²/(pairs · ratings_per_pair) + pair²/pairs + rater²/raters``, ``df = min(raters, pairs) -
    1``. Raters differ by `rater_sd` in their mean differences, pairs by `pair_sd`. 0 below three
    raters or pairs, which have no interval.

    Raises `ValueError` where there are no ratings, or no margin above 0.

    >>> round(equivalence_power(12, 100, 3, margin=0.25, rater_sd=0.08), 2)
    0.85
    """
    if min(raters, pairs, ratings_per_pair) <= 0 or not margin > 0:
        raise ValueError("expected raters, pairs, ratings and a margin above 0")
    df = min(raters, pairs) - 1
    if df < 2:
        return 0.0
    variance = noise_sd**2 / (pairs * ratings_per_pair) + pair_sd**2 / pairs + rater_sd**2 / raters
    se = math.sqrt(variance)
    if se == 0:
        return 1.0
    s = se * np.sqrt(chdtri(df, QUANTILES) / df)
    passed = 2 * ndtr((margin - float(stdtrit(df, 1 - LEVEL)) * s) / se) - 1
    return float(np.maximum(passed, 0.0).mean())
