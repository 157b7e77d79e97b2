"""How far best-of-k can move a policy: its KL divergence and win rate against one sample."""

from __future__ import annotations

import math

from palate.errors import UsageError


def kl_bound(k: float) -> float:
    """Upper bound of KL(best of k ‖ policy) in nats: ``log k - (k - 1)/k``.

    An equality only where no two samples are equal and no scores tie (Beirami et al. 2024).

    Raises:
        UsageError: for k below 1.

    Example:
        >>> [round(kl_bound(k), 3) for k in (1, 2, 4, 16, 128)]
        [0.0, 0.193, 0.636, 1.835, 3.86]
    """
    _check(k)
    return math.log(k) - (k - 1) / k


def win_rate_bound(k: float) -> float:
    """Upper bound of the chance that the best of k beats a fresh sample, ties half: ``k/(k + 1)``.

    In the scorer's own eyes; an equality where no scores tie.

    Raises:
        UsageError: for k below 1.

    Example:
        >>> win_rate_bound(1), win_rate_bound(3)
        (0.5, 0.75)
    """
    _check(k)
    return k / (k + 1)


def _check(k: float) -> None:
    if not k >= 1:
        raise UsageError(f"best of {k:g}: k must be at least 1")
