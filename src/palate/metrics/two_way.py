"""Means of rows, or of couples, that share users and share items: two-way clustering.

Where several users answer one item (a question, with its samples), what is hard about the item
moves the rows of all of them, and a jackknife by user alone does not see it. Cameron, Gelbach
and Miller (2011):

```
V = max(V_owner, V_owner + V_item - V_cell),   t with min(U_eff, I_eff) - 1
```

each V the jackknife over that clustering, a cell the rows of one user on one item. Where every
item belongs to one user V_item = V_cell, and all is as by user. A mirrored couple has two owners:
V_owner and V_cell are then dyadic,

```
V_J = Σ_u m_u² - Σ_d m_d²,   V_D = Σ_d ((1 - w_d) m_d)²,   V_owner = max(V_J, V_D)
```

with m_u what the figure moves when all couples of user u are left out, m_d those of the unordered
pair d of users, w_d the pair's share of the weights; for a mean this is ``couple_mean``'s. V_cell
is V_J with the users and pairs within each item: what is subtracted has no floor.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from palate.metrics.arrays import FloatArray, Ids, IntArray, scored_rows, sums, vector
from palate.metrics.clustered import effective_units, user_mean
from palate.metrics.dyadic import couple_mean
from palate.metrics.estimates import ROUNDING, UNIT, Estimate, Spread, interval

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

Owners = tuple[IntArray] | tuple[IntArray, IntArray]
"""Number of each row's user, from 0; or of both users of each couple, numbered together."""
Moves = Callable[[Owners], FloatArray | None]
"""What a figure moves as one owner after another is left out; None where nothing would be left."""


def two_way_mean(
    values: ArrayLike,
    users: Ids,
    items: Ids | None = None,
    *,
    mirrored: Ids | None = None,
    null: float = 0.5,
    bounds: tuple[float, float] = UNIT,
) -> Estimate:
    """Mean over rows, with the jackknife interval by user and item; or over couples.

    Without items, or where no two users (couples) share one, it is ``user_mean`` (``couple_mean``).

    Args:
        values: shape (rows,), within ``bounds``; NaN rows are left out.
        users: the user id of each row.
        items: the item id of each row.
        mirrored: the other user of each row, where a row is a couple.
        null: the value that p tests against.
        bounds: the range of the values, to which the interval is clipped.

    Raises:
        ValueError: for unequal lengths, a value out of bounds, a NaN id, or a couple of a user with
            themselves.

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
    alone = (
        user_mean(checked, users, null=null, bounds=bounds)
        if mirrored is None
        else couple_mean(checked, users, mirrored, null=null, bounds=bounds)
    )
    if items is None:
        return alone
    x, sides, _ = scored_rows(checked, users, *(() if mirrored is None else (mirrored,)))
    _, (by_item,), _ = scored_rows(checked, items)
    owners: Owners = (sides[0],) if mirrored is None else (sides[0], sides[1])
    if not shared(owners, by_item):
        return alone
    mean, one = float(x.mean()), np.ones_like(x)
    spread = Spread(
        variance=two_way_variance(moves_of_mean(x), owners, by_item, one),
        u_eff=min(effective(owners, one), effective((by_item,), one)),
        constant=bool(np.abs(x - mean).max() <= ROUNDING * (bounds[1] - bounds[0])),
    )
    return interval(mean, spread, n=x.size, n_units=alone.n_units, null=null, bounds=bounds)


def two_way_variance(
    moves: Moves, owners: Owners, items: IntArray, weights: FloatArray
) -> float | None:
    """``max(V_owner, V_owner + V_item - V_cell)``; None where one owner or item holds every row.

    Args:
        moves: of the figure.
        owners: of each row.
        items: number of each row's item.
        weights: how much of the figure rests on each row.

    Example:
        Two users agree on each of three items: only the items vary.

        >>> moves, users = moves_of_mean(np.array([1.0, 1, 0, 0, 1, 1])), np.arange(6)
        >>> round(two_way_variance(moves, (users,), users // 2, np.ones(6)), 3)
        0.111
        >>> round(owner_variance(moves, (users,), np.ones(6)), 3)
        0.044
    """
    by_owner = owner_variance(moves, owners, weights)
    by_item = owner_variance(moves, (items,), weights)
    cells = _squares(moves, _cells(owners, items), weights)
    if by_owner is None or by_item is None or cells is None:
        return None
    by_cell = cells[0]
    # The difference may be negative, as where two users of an item want opposite things.
    return max(by_owner, by_owner + by_item - by_cell)


def owner_variance(moves: Moves, owners: Owners, weights: FloatArray) -> float | None:
    """Jackknife variance over owners: of users ``(U - 1)/U Σ_u m_u²``, of couples the dyadic one.

    Args:
        moves: of the figure.
        owners: of each row.
        weights: how much of the figure rests on each row.

    Example:
        >>> owner_variance(lambda owners: np.array([0.5, -0.5]), (np.array([0, 1]),), np.ones(2))
        0.25
    """
    squares = _squares(moves, owners, weights)
    return None if squares is None else max(squares)


def _squares(moves: Moves, owners: Owners, weights: FloatArray) -> tuple[float, float] | None:
    """Return the jackknife variance, and the floor that it must not fall under."""
    moved = moves(owners)
    if moved is None:
        return None
    if len(owners) == 1:
        return (moved.size - 1) / moved.size * float(moved @ moved), 0.0
    dyads = (_dyads(*owners),)
    by_dyad = moves(dyads)
    if by_dyad is None:
        return None
    left = by_dyad * (1 - added(dyads, weights) / weights.sum())
    return float(moved @ moved) - float(by_dyad @ by_dyad), float(left @ left)


def moves_of_mean(values: FloatArray) -> Moves:
    """What the mean of some values moves as one owner after another is left out.

    Example:
        >>> moves_of_mean(np.array([1.0, 0.0, 0.5]))((np.array([0, 1, 1]),)).tolist()
        [-0.25, 0.5]
    """
    apart, one = values - values.mean(), np.ones_like(values)

    def moves(owners: Owners) -> FloatArray | None:
        left = values.size - added(owners, one)
        return -added(owners, apart) / left if bool(np.all(left > 0)) else None

    return moves


def added(owners: Owners, weights: FloatArray) -> FloatArray:
    """Sum of the weights of each owner's rows.

    Example:
        >>> added((np.array([0, 1]), np.array([1, 2])), np.array([1.0, 10.0])).tolist()
        [1.0, 11.0, 10.0]
    """
    size = 1 + max(int(side.max(initial=-1)) for side in owners)
    found = sums(owners[0], weights, size)
    return found if len(owners) == 1 else found + sums(owners[1], weights, size)


def shared(owners: Owners, items: IntArray) -> bool:
    """Whether any item has rows of two users, or couples of two pairs of users.

    Example:
        >>> shared((np.array([0, 0, 1]),), np.array([5, 6, 7]))
        False
    """
    whose = owners[0] if len(owners) == 1 else _dyads(*owners)
    return np.unique(whose * (int(items.max(initial=0)) + 1) + items).size > np.unique(items).size


def effective(owners: Owners, weights: FloatArray) -> float:
    """Effective number of owners, each weighing what its rows do.

    Example:
        >>> effective((np.array([0, 0, 1, 1]),), np.ones(4))
        2.0
    """
    return effective_units(np.maximum(added(owners, weights), 0.0))


def _cells(owners: Owners, items: IntArray) -> Owners:
    """Number the users within each item."""
    width = int(items.max(initial=0)) + 1
    codes = np.unique(np.concatenate(owners) * width + np.tile(items, len(owners)),
                      return_inverse=True)[1]  # fmt: skip
    if len(owners) == 1:
        return (codes,)
    return codes[: items.size], codes[items.size :]


def _dyads(first: IntArray, second: IntArray) -> IntArray:
    width = int(max(first.max(initial=0), second.max(initial=0))) + 1
    keys = np.minimum(first, second) * width + np.maximum(first, second)
    return np.unique(keys, return_inverse=True)[1]
