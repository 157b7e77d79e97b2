"""The reliability of a figure: how much of what sets scorers apart is true.

With x_i the figure of scorer i, a mean over the same rows (or couples) for all n scorers:

```
r    = 1 - Σ_{i<j} V_ij / Σ_{i<j} (x_i - x_j)²
V_ij = V_user + V_item - V_cell of the paired difference of scorers i and j, 0 at least
ν    = min(U_eff, I_eff) - 1
interval [1 - (1 - r) F_{0.975; n - 1, ν}, 1 - (1 - r) F_{0.025; n - 1, ν}]
```

all clipped to [0, 1]. Two figures of the same scorers cannot correlate by more than about
``√(r_x r_y)``, however well the one predicts the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import fdtri

from palate.metrics.arrays import same_length
from palate.metrics.clusters import Clusters
from palate.metrics.estimates import ROUNDING, TAIL
from palate.metrics.jackknife import jackknife, ratio, variances
from palate.metrics.ranks.agreement import LEAST_SCORERS


@dataclass(frozen=True, slots=True)
class Reliability:
    """Share of the variance between scorers that is no noise of users and items, 95 % interval."""

    value: float
    low: float
    high: float
    df: float
    """Degrees of freedom of the noise, ν."""


def reliability(values: ArrayLike, clusters: Clusters) -> Reliability | None:
    """Reliability of the scorers' means over rows, with its 95 % interval.

    None where it is not defined: fewer than three scorers, all means equal, an effective number of
    users or items of 2 or less, or one cluster that holds all rows.

    `values` are of each row (or couple) under each scorer, shape (rows, n), all finite.

    >>> rng = np.random.default_rng(0)
    >>> skill, noise = np.array([0.0, 1.0, 2.0, 3.0]), rng.normal(0, 3.0, (40, 4))
    >>> figure = reliability(skill + noise, Clusters.of(range(40)))
    >>> round(figure.value, 2), round(figure.low, 2), round(figure.high, 2), round(figure.df)
    (0.91, 0.68, 0.99, 39)
    """
    x = np.asarray(values, dtype=np.float64)
    if x.ndim != 2 or not bool(np.isfinite(x).all()):
        raise ValueError(f"expected finite values of shape (rows, scorers), got {x.shape}")
    same_length(values=x, users=clusters.users[0])
    rows, n = x.shape
    if n < LEAST_SCORERS or not rows:
        return None
    means = x.mean(axis=0)
    spread = sum((a - b) ** 2 for a, b in combinations(means.tolist(), 2))
    ones = np.ones(rows)
    effective = jackknife(ratio(x[:, 0], ones), ones, clusters).effective
    size = float(np.abs(x).max())
    if effective <= 2 or spread <= (ROUNDING * size) ** 2:
        return None
    noise = 0.0
    for i, j in combinations(range(n), 2):
        parts = variances(ratio(x[:, i] - x[:, j], ones), ones, clusters)
        if parts is None:
            return None
        of_users, of_items, of_cells = parts
        noise += max(0.0, of_users + of_items - of_cells)
    error, df = noise / spread, effective - 1
    factors = (1.0, float(fdtri(n - 1, df, 1 - TAIL)), float(fdtri(n - 1, df, TAIL)))
    value, low, high = (min(1.0, max(0.0, 1 - error * factor)) for factor in factors)
    return Reliability(value, low, high, df)
