"""The variance of a figure, from what it moves as users, questions and their cells are left out.

With m_g what the figure moves without cluster g, of G clusters (Cameron, Gelbach and Miller 2011):

```
V      = max(V_user, V_user + V_item - V_cell),   t with min(U_eff, I_eff) - 1
V_user = ((G - 1)/G) Σ_g m_g²                     likewise V_item, V_cell: rows of a user on an item
```

A mirrored couple lies in the clusters of both its users, and where items are the two responses of a
row, it lies in those of both. Such a side is dyadic, with d the unordered pairs of clusters and w_d
their share of the weights:

```
V_J = Σ_g m_g² - Σ_d m_d²,   V_D = Σ_d ((1 - w_d) m_d)²,   V_side = max(V_J, V_D)
```

V_cell is then V_J with the clusters and pairs of one side within those of the other. Where no item
is shared by two users, V is V_user alone.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter

import numpy as np

from palate.metrics.arrays import FloatArray
from palate.metrics.clusters import (
    Clusters,
    Columns,
    Parts,
    added,
    effective_number,
    n_clusters,
    parts_of,
)
from palate.metrics.estimates import ROUNDING, Spread

ValueWithout = Callable[[Columns], FloatArray]
"""A figure without the rows of each cluster in turn, by code; without columns, the figure itself.
Not finite where nothing would be left."""


def jackknife(
    value_without: ValueWithout,
    weights: FloatArray,
    clusters: Clusters,
    *,
    constant: bool = False,
) -> Spread:
    """Spread of a figure by user and item: its variance and its effective number of clusters.

    Args:
        value_without: the figure without each cluster.
        weights: how much of the figure rests on each row, shape (rows,).
        clusters: of the rows.
        constant: whether every residual is 0, which the caller knows.

    Two users agree on each of three questions, so there are three values and not six:

    >>> x, rows = np.array([1.0, 1, 0, 0, 1, 1]), Clusters.of("abcdef", questions="xxyyzz")
    >>> spread = jackknife(ratio(x, np.ones(6)), np.ones(6), rows)
    >>> round(spread.variance, 3), spread.effective, spread.unit
    (0.111, 3.0, 'questions')
    """
    parts = variances(value_without, weights, clusters)
    sides, items = [(clusters.users, "users")], clusters.items
    if items is not None:
        sides.append((items.counted, items.unit))
    effective, unit = min(
        ((effective_number(columns, weights), unit) for columns, unit in sides), key=itemgetter(0)
    )
    if parts is None:
        return Spread(None, effective, constant, unit)
    of_users, of_items, of_cells = parts
    # The sum may be negative.
    return Spread(max(of_users, of_users + of_items - of_cells), effective, constant, unit)


def variances(
    value_without: ValueWithout, weights: FloatArray, clusters: Clusters
) -> tuple[float, float, float] | None:
    """V_user, V_item and V_cell of a figure; None where one cluster holds all that it rests on.

    V_item and V_cell are 0 where no item is shared.

    >>> rows = Clusters.of("ababab", questions=list("xxyyzz"))
    >>> parts = variances(ratio(np.array([1.0, 1, 0, 0, 1, 1]), np.ones(6)), np.ones(6), rows)
    >>> [round(part, 3) for part in parts]
    [0.0, 0.111, 0.044]
    """
    value = float(value_without(())[0])

    def squares(columns: Columns, scale: FloatArray | float) -> FloatArray:
        moved = (value_without(columns) - value) * scale
        return np.asarray(moved @ moved)

    with np.errstate(invalid="ignore", divide="ignore"):
        users, items, cells = map(float, parts_of_variance(squares, weights, clusters))
    return (users, items, cells) if np.isfinite([users, items, cells]).all() else None


def parts_of_variance(
    squares: Callable[[Columns, FloatArray | float], FloatArray],
    weights: FloatArray,
    clusters: Clusters,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """V_user, V_item and V_cell, of one figure or of many at once, as arrays of one shape.

    `squares` sums what figures move without each cluster, times a factor, squared.
    """

    def signed(parts: Parts) -> FloatArray:
        if len(parts) == 1:
            size = n_clusters(parts[0][1])
            return (size - 1) / size * squares(parts[0][1], 1.0)
        return np.asarray(sum(sign * squares(columns, 1.0) for sign, columns in parts))

    def side(columns: Columns) -> FloatArray:
        parts = parts_of(columns)
        if len(parts) == 1:
            return signed(parts)
        _, (_, pairs) = parts
        # Sums by cluster can cancel to nothing; pairs of clusters alone are then the floor.
        floor = squares(pairs, 1 - added(pairs, weights) / float(weights.sum()))
        return np.maximum(signed(parts), floor)

    of_users, items = side(clusters.users), clusters.items
    if items is None:
        return of_users, np.zeros_like(of_users), np.zeros_like(of_users)
    return of_users, side(items.columns), signed(clusters.cells)


def ratio(top: FloatArray, bottom: FloatArray) -> ValueWithout:
    """Ratio of two sums over rows, ``Σ top / Σ bottom``; with weights at the bottom a mean.

    >>> ratio(np.array([1.0, 0.0, 0.5]), np.ones(3))((np.array([0, 1, 1]),)).tolist()
    [0.25, 1.0]
    """
    total = float(bottom.sum())
    value = float(top.sum()) / total if total else np.nan
    # Sums of residuals lose no digits where the figure is far larger than what it moves.
    apart = top - value * bottom

    def without(columns: Columns) -> FloatArray:
        left = total - added(columns, bottom)
        moved = -added(columns, apart) / np.where(left > ROUNDING * total, left, np.nan)
        return value + moved

    return without


def combined(*parts: tuple[float, ValueWithout]) -> ValueWithout:
    """Sum of figures, each times its factor.

    >>> mean = ratio(np.array([1.0, 0.0]), np.ones(2))
    >>> combined((2.0, mean), (-1.0, mean))(()).tolist()
    [0.5]
    """

    def without(columns: Columns) -> FloatArray:
        return sum(
            (factor * part(columns) for factor, part in parts), np.zeros(n_clusters(columns))
        )

    return without
