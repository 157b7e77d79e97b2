"""Percent agreement and Krippendorff's α of raters, with jackknife intervals.

From counts c (units × values) of the units with m ≥ 2 values:

```
O   = Σ_i (c_i c_i' - diag c_i) / (m_i - 1),   n = O 1,   N = Σ n
D_o = Σ O Δ / N,   D_e = n'Δn / (N (N - 1)),   α = 1 - D_o/D_e
Δ   = 1[k ≠ l] (nominal),   (k - l)² (interval),   (r_k - r_l)² of mid-ranks (ordinal)
```

Percent agreement is the mean over units of the share of their pairs of values that are equal.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from palate.metrics.arrays import FloatArray, Ids, same_length, scored_rows, vector
from palate.metrics.clusters import Clusters, Columns, compact, n_clusters, pairs_of
from palate.metrics.estimates import GAIN, ROUNDING, UNIT, Estimate, interval
from palate.metrics.jackknife import jackknife

Measure = Literal["percent", "nominal", "ordinal", "interval"]
NO_PAIR = "no item has values of two raters"
ALIKE = "all values are alike: chance is not defined"


def rater_agreement(
    values: ArrayLike,
    units: Ids,
    clusters: Ids | Clusters,
    *,
    measure: Measure = "nominal",
    both_orders: bool = False,
) -> Estimate:
    """Percent agreement, or Krippendorff's α: 1 for full agreement, 0 for that of chance.

    `units` are what raters gave the values to, `clusters` the raters, or `Clusters` of raters and
    what they rated; n counts units of two values or more. Raters, items and cells are left out in
    turn; mid-ranks are then made anew. With `both_orders` every unit also counts with its values
    negated: choices of -1, 0 and 1 between two answers then do not depend on which stands first.
    None, with a note, without a unit of two values, and of α where all values are alike. The work
    grows with the square of the number of distinct values.

    >>> units, raters = list("xxyyzz"), list("ababab")
    >>> e = rater_agreement([1, 1, -1, -1, 1, -1], units, raters)
    >>> round(e.value, 3), e.n, e.n_units
    (0.444, 3, 2)
    """
    given, rows = vector(values), Clusters.of(clusters)
    same_length(values=given, raters=rows.user)
    x, unit, _ = scored_rows(given, units)
    several = np.bincount(unit, minlength=1)[unit] > 1
    if not several.any():
        return Estimate(note=NO_PAIR)
    rows = rows.take(~np.isnan(given)).take(several)
    x, unit = x[several], compact(unit[several])[0]
    scale = np.unique(np.concatenate([x, -x] if both_orders else [x]))
    value, width = np.searchsorted(scale, x), scale.size

    def counted(groups: np.ndarray) -> FloatArray:
        size = int(groups.max()) + 1
        counts = np.bincount(groups * width + value, minlength=size * width)
        return counts.reshape(size, width).astype(np.float64)

    counts = counted(unit)
    of_units = _parts(counts)

    def without(columns: Columns) -> FloatArray:
        left = np.repeat(of_units.sum(axis=0)[None], n_clusters(columns), axis=0)
        if columns:
            cells = pairs_of(columns[0], unit)
            at = np.unique(cells, return_index=True)[1]
            rest = _parts(counts[unit[at]] - counted(cells))
            np.subtract.at(left, columns[0][at], of_units[unit[at]] - rest)
        return _figures(left, scale, measure, both_orders)

    n, n_units, bounds = len(counts), rows.n_users, UNIT if measure == "percent" else GAIN
    with np.errstate(invalid="ignore", divide="ignore"):
        figure = float(without(())[0])
        if np.isnan(figure):
            return Estimate(n=n, n_units=n_units, note=ALIKE)
        # Whoever is left out, full agreement stays full, and none at all stays none.
        constant = figure > 1 - ROUNDING or (measure == "percent" and figure < ROUNDING)
        figure = min(max(figure, bounds[0]), bounds[1])
        spread = jackknife(without, np.ones(x.size), rows, constant=constant)
    null = sum(bounds) / 2
    return interval(figure, spread, n=n, n_units=n_units, null=null, bounds=bounds)


def _parts(counts: FloatArray) -> FloatArray:
    """Of each unit: agreement, 1, and coincidences; zeros where it has fewer than two values."""
    m, k = counts.sum(axis=1), np.arange(counts.shape[1])
    both = counts[:, :, None] * counts[:, None, :]
    both[:, k, k] -= counts
    both /= np.where(m > 1, m - 1, np.inf)[:, None, None]
    agreed = both[:, k, k].sum(axis=1) / np.maximum(m, 1)
    return np.column_stack([agreed, m > 1, both.reshape(len(counts), -1)])


def _figures(
    left: FloatArray, scale: FloatArray, measure: Measure, both_orders: bool
) -> FloatArray:
    """The figure of each sum of parts; NaN where it is not defined."""
    if measure == "percent":
        return left[:, 0] / np.where(left[:, 1] > 0.5, left[:, 1], np.nan)
    both = left[:, 2:].reshape(-1, scale.size, scale.size)
    if both_orders:
        both = both + both[:, ::-1, ::-1]
    n = both.sum(axis=2)
    ranks = np.cumsum(n, axis=1) - n / 2 if measure == "ordinal" else scale[None]
    distances: FloatArray = (ranks[:, :, None] - ranks[:, None, :]) ** 2
    if measure == "nominal":
        distances = (distances > 0).astype(np.float64)
    total = n.sum(axis=1)
    seen = (both * distances).sum(axis=(1, 2)) / total
    pairs = n[:, :, None] * n[:, None, :]
    chance = (pairs * distances).sum(axis=(1, 2)) / (total * (total - 1))
    defined = (left[:, 1] > 0.5) & (chance > ROUNDING * distances.max(axis=(1, 2)))
    alphas: FloatArray = 1 - seen / np.where(defined, chance, np.nan)
    return alphas
