"""The rise and fall of a gain with the distance from the untrained policy."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from palate.uses.ppo.result import GainFit

LEAST = 3
"""Points beside the start that two coefficients are fitted to."""


def gain_at(kl: float, alpha: float, beta: float) -> float:
    """Return R(d) = d (α − β log d), d = √KL; 0 at the start.

    >>> gain_at(0.0, 1.0, 0.5), gain_at(1.0, 1.0, 0.5)
    (0.0, 1.0)
    """
    distance = math.sqrt(kl)
    return distance * (alpha - beta * math.log(distance)) if distance else 0.0


def fit_gain(of: str, kls: Sequence[float], gains: Sequence[float]) -> GainFit | None:
    """Return the least squares fit of R to gains at some KL (Gao et al. 2023, arXiv 2210.10760).

    R = α d − β d log d is linear in its coefficients. Points at KL 0 say nothing of them; None
    where fewer than three are left, or where all have one KL. With β > 0 R is highest at
    d = exp(α / β − 1), which is left out beyond the largest KL.

    Args:
        of: what it is called.
        kls: nats, one for each point.
        gains: over the untrained policy.

    >>> points = [0.25, 1.0, 4.0, 9.0]
    >>> fit = fit_gain("reward", points, [gain_at(kl, 2.0, 1.0) for kl in points])
    >>> round(fit.alpha, 6), round(fit.beta, 6), round(fit.peak_kl, 4)
    (2.0, 1.0, 7.3891)
    >>> fit_gain("reward", points[:3], [gain_at(kl, 2.0, 1.0) for kl in points[:3]]).peak_kl
    """
    there = [
        (math.sqrt(kl), gain)
        for kl, gain in zip(kls, gains, strict=True)
        if kl > 0 and not math.isnan(gain)
    ]
    if len(there) < LEAST:
        return None
    distance, gain = np.array(there).T
    terms = np.stack([distance, -distance * np.log(distance)], axis=1)
    (alpha, beta), _, rank, _ = np.linalg.lstsq(terms, gain)
    if rank < 2:
        return None
    exponent = 2 * (alpha / beta - 1) if beta > 0 else math.inf
    peak = math.exp(exponent) if exponent <= math.log(max(kls)) else None
    return GainFit(of=of, alpha=float(alpha), beta=float(beta), peak_kl=peak)
