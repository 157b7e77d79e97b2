"""The jackknife as its definition reads: the figure is computed anew without each cluster."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

ValueOf = Callable[[list[int]], float]
"""A figure of some rows, by their numbers."""
Side = Sequence[Any] | np.ndarray
"""Of each row its cluster, or a frozenset of both, as a couple lies in those of two users."""


def mean_of(values: Iterable[float]) -> ValueOf:
    x = np.asarray(values, dtype=float)
    return lambda rows: float(x[rows].mean()) if rows else np.nan


def dyads(first: Iterable[Any], second: Iterable[Any]) -> list[frozenset[Any]]:
    return [frozenset(pair) for pair in zip(list(first), list(second), strict=True)]


def parts_by_hand(value_of: ValueOf, users: Side, items: Side) -> tuple[float, float, float]:
    """V_user, V_item, V_cell.

    V_J of a side in two clusters is the sum over single clusters less that over pairs of them.
    """
    sides = [
        [c if isinstance(c, frozenset) else frozenset([c]) for c in np.asarray(side, object)]
        for side in (users, items)
    ]
    rows = range(len(sides[0]))
    every = value_of([*rows])

    def square(out: Callable[[int], bool]) -> float:
        return (value_of([row for row in rows if not out(row)]) - every) ** 2

    def signed(side: list[frozenset[Any]]) -> list[tuple[int, frozenset[Any]]]:
        single = [(1, frozenset([c])) for c in set().union(*side)]
        return single + [(-1, pair) for pair in {*side} if len(pair) == 2]

    def within(side: list[frozenset[Any]]) -> float:
        clusters = signed(side)
        if all(sign == 1 for sign, _ in clusters):
            n = len(clusters)
            return (n - 1) / n * sum(square(lambda r, c=c: c <= side[r]) for _, c in clusters)
        plain = sum(sign * square(lambda r, c=c: c <= side[r]) for sign, c in clusters)
        floor = 0.0
        for pair in {c for sign, c in clusters if sign == -1}:
            share = side.count(pair) / len(rows)
            floor += (1 - share) ** 2 * square(lambda r, p=pair: p == side[r])
        return max(plain, floor)

    def crossed() -> float:
        total, cells, signs = 0.0, 0, set()
        for sign_u, u in signed(sides[0]):
            for sign_i, i in signed(sides[1]):
                held = {r for r in rows if u <= sides[0][r] and i <= sides[1][r]}
                if held:
                    cells += 1
                    signs |= {sign_u, sign_i}
                    total += sign_u * sign_i * square(held.__contains__)
        return total if -1 in signs else (cells - 1) / cells * total

    return within(sides[0]), within(sides[1]), crossed()


def variance_by_hand(value_of: ValueOf, users: Side, items: Side) -> float:
    by_user, by_item, by_cell = parts_by_hand(value_of, users, items)
    return max(by_user, by_user + by_item - by_cell)


def effective(clusters: Side) -> float:
    """Effective number of clusters of equal rows."""
    counts = np.unique(np.asarray(clusters), return_counts=True)[1].astype(float)
    return float(counts.sum() ** 2 / (counts @ counts))
