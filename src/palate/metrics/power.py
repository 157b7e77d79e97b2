"""How small an effect a table could have found."""

from __future__ import annotations

from scipy.special import stdtrit


def minimum_detectable_effect(
    se: float | None, df: float | None, *, alpha: float = 0.05, power: float = 0.8
) -> float | None:
    """Smallest true difference from the null value found with the given power.

    ``(t_{1 - alpha/2, df} + t_{power, df}) · se``; in the unit of the estimate. None where either
    is None, as for estimates without a t interval.

    Args:
        se: standard error of the estimate (``Estimate.se``).
        df: its degrees of freedom (``Estimate.df``).
        alpha: two-sided level of the test.
        power: chance of finding it.

    Raises:
        ValueError: for a negative ``se``, ``df`` not above 0, or ``alpha`` or ``power`` outside of
            (0, 1).

    Example:
        >>> round(minimum_detectable_effect(0.01, 100), 4)
        0.0283
    """
    if not (0 < alpha < 1 and 0 < power < 1):
        raise ValueError("alpha and power must be in (0, 1)")
    if se is None or df is None:
        return None
    if not (se >= 0 and df > 0):
        raise ValueError(f"expected se >= 0 and df > 0, got se={se:g}, df={df:g}")
    return float(stdtrit(df, 1 - alpha / 2) + stdtrit(df, power)) * se
