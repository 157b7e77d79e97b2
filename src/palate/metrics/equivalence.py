"""Whether a figure is as good as its null value: two one-sided tests."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import chdtri, ndtr, ndtri, stdtr, stdtrit

from palate.metrics.estimates import POWER, Estimate

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
