"""How small an effect a table could have found."""

from __future__ import annotations

from scipy.special import stdtrit

from palate.metrics.estimates import TAIL

POWER = 0.8


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
