"""Means of rows that share users and share items: two-way clustering.

Where several users answer one item (a question, with its samples), what is hard about the item
moves the rows of all of them, and a jackknife by user alone does not see it. Cameron, Gelbach
and Miller (2011):

```
V = max(V_user, V_user + V_item - V_cell),   t with min(U_eff, I_eff) - 1
```

each V the jackknife over that clustering, a cell the rows of one user on one item. Where every
item belongs to one user V_item = V_cell, and all is as by user.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from palate.metrics.arrays import FloatArray, Ids, IntArray, scored_rows, sums, vector
from palate.metrics.clustered import effective_units, jackknife_variance, user_mean
from palate.metrics.estimates import ROUNDING, UNIT, Estimate, Spread, interval

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


def two_way_mean(
    values: ArrayLike,
    users: Ids,
    items: Ids | None = None,
    *,
    null: float = 0.5,
    bounds: tuple[float, float] = UNIT,
) -> Estimate:
    """Mean over rows, with the jackknife interval by user and item.

    Without items, or where no two users share one, it is ``user_mean``.

    Args:
        values: shape (rows,), within ``bounds``; NaN rows are left out.
        users: the user id of each row.
        items: the item id of each row.
        null: the value that p tests against.
        bounds: the range of the values, to which the interval is clipped.

    Raises:
        ValueError: for unequal lengths, a value out of bounds, or a NaN id.

    Example:
        Two users agree on each of three items, so there are three values and not six:

        >>> x, users, items = [1, 1, 0, 0, 1, 1], list("ababab"), list("xxyyzz")
        >>> e = two_way_mean(x, list("abcdef"), items)
        >>> round(e.value, 3), round(e.se, 3), e.df
        (0.667, 0.333, 2.0)
        >>> round(user_mean(x, list("abcdef")).se, 3)
        0.211
    """
    checked = vector(values, bounds=bounds)
    if items is None:
        return user_mean(checked, users, null=null, bounds=bounds)
    x, (by_user,), names = scored_rows(checked, users)
    _, (by_item,), _ = scored_rows(checked, items)
    if not shared(by_user, by_item):
        return user_mean(checked, users, null=null, bounds=bounds)
    mean = float(x.mean())
    residuals = x - mean

    def variance(codes: IntArray) -> float | None:
        return jackknife_variance(sums(codes, residuals, 0), _counts(codes))

    spread = Spread(
        variance=two_way_variance(variance, by_user, by_item),
        u_eff=min(effective_units(_counts(by_user)), effective_units(_counts(by_item))),
        constant=bool(np.abs(residuals).max() <= ROUNDING * (bounds[1] - bounds[0])),
    )
    return interval(mean, spread, n=x.size, n_units=len(names), null=null, bounds=bounds)


def two_way_variance(
    variance: Callable[[IntArray], float | None], users: IntArray, items: IntArray
) -> float | None:
    """``max(V_user, V_user + V_item - V_cell)``; None where one user or item holds every row.

    Args:
        variance: of a statistic, by leaving out one cluster after another; it is given the
            cluster of each row, numbered from 0.
        users: the user of each row, numbered from 0.
        items: the item of each row, numbered from 0.

    Example:
        >>> two_way_variance(lambda codes: float(codes.max()), np.arange(4) % 2, np.arange(4) // 2)
        1.0
    """
    cells = np.unique(_cells(users, items), return_inverse=True)[1]
    by_user, by_item, by_cell = variance(users), variance(items), variance(cells)
    if by_user is None or by_item is None or by_cell is None:
        return None
    # The difference may be negative, as where two users of an item want opposite things.
    return max(by_user, by_user + by_item - by_cell)


def shared(users: IntArray, items: IntArray) -> bool:
    """Whether any item has rows of two users.

    Example:
        >>> shared(np.array([0, 0, 1]), np.array([5, 6, 7]))
        False
    """
    return np.unique(_cells(users, items)).size > np.unique(items).size


def _cells(users: IntArray, items: IntArray) -> IntArray:
    return users * (int(items.max(initial=0)) + 1) + items


def _counts(codes: IntArray) -> FloatArray:
    return np.bincount(codes).astype(np.float64)
