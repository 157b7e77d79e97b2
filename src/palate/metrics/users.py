"""Accuracy over users: per user, and the worst decile.

With ten rows a user, the worst decile of the raw means is mostly bad luck. So each mean is also
given shrunken toward the overall mean, by how much users differ beyond that luck.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from palate.metrics.arrays import FloatArray, Ids, scored_rows, sums, vector
from palate.metrics.estimates import UNIT

SHARE = 0.1


@dataclass(frozen=True, slots=True)
class WorstUsers:
    """Mean accuracy of the worst-served users; None without rows."""

    raw: float | None
    shrunken: float | None


def worst_decile(values: ArrayLike, users: Ids) -> WorstUsers:
    """Mean accuracy of the lowest tenth of users (CVaR), raw and shrunken.

    With ``k = max(1, U / 10)`` and means sorted upward, ``Σ_j min(1, max(0, k - j)) m_(j) / k``
    for j = 0, 1, …: the user at the border counts in part.

    >>> users = list(range(15))
    >>> worst_decile([0, 1] + [1] * 13, users).raw
    0.3333333333333333
    """
    raw, shrunken = user_means(values, users)
    return WorstUsers(_lowest(raw), _lowest(shrunken))


def user_means(values: ArrayLike, users: Ids) -> tuple[FloatArray, FloatArray]:
    """Accuracy of each user, raw and by normal-normal empirical Bayes (method of moments).

    ```
    m_u user mean, n_u rows, μ = Σ n_u m_u / N
    σ² = Σ_i (x_i - m_u(i))² / (N - U)                                within users, pooled
    τ² = max(0, (Σ_u n_u (m_u - μ)² - (U - 1) σ²) / (N - Σ_u n_u²/N))  between users
    shrunken_u = μ + w_u (m_u - μ),   w_u = τ² / (τ² + σ² / n_u)
    ```

    Where no user has two rows, nothing tells users from luck and every w_u is 0.
    """
    x, codes, names = scored_rows(vector(values, bounds=UNIT), users)
    if not x.size:
        return np.empty(0), np.empty(0)
    n, units, counts = x.size, len(names), np.bincount(codes)
    raw, overall = sums(codes, x, units) / counts, float(x.mean())
    spare = n - float(counts @ counts) / n
    if n == units or spare <= 0:
        return raw, np.full(units, overall)
    around = x - raw[codes]
    within = float(around @ around) / (n - units)
    between = (float(counts @ (raw - overall) ** 2) - (units - 1) * within) / spare
    weight = between / (between + within / counts) if between > 0 else 0.0
    return raw, overall + weight * (raw - overall)


def _lowest(means: FloatArray) -> float | None:
    if not means.size:
        return None
    k = max(1.0, SHARE * means.size)
    weights = np.clip(k - np.arange(means.size), 0.0, 1.0)
    return float(weights @ np.sort(means)) / k
