"""Clusters in which rows depend on each other, and what a figure moves as they are left out.

Clusters are users, questions and responses. With m_g what the figure moves without cluster g, of G
clusters (Cameron, Gelbach and Miller 2011), the variance of a figure is

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
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from operator import itemgetter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from palate.metrics.arrays import FloatArray, Ids, IntArray, id_codes, listed, same_length, sums
from palate.metrics.estimates import ROUNDING, Spread

Columns = tuple[IntArray, ...]
"""Codes of each row's cluster, from 0: one column, or two of one numbering where a row lies in two
clusters, as a couple lies in those of both its users."""

Parts = tuple[tuple[int, Columns], ...]
"""Columns whose squared moves are added (1) or taken off (-1)."""
CLUSTERED_BY = {
    "questions": "user and question",
    "texts": "user and text",
    "questions and texts": "user, question and text",
}


class Items(NamedTuple):
    """What is judged, beside who judges it."""

    columns: Columns
    unit: str
    counted: Columns
    """What the effective number counts: of a row by its question, the question in every column."""


@dataclass(frozen=True, eq=False)
class Clusters:
    """Users of each row or mirrored couple, and where they are known its question and texts.

    >>> rows = Clusters.of(["ann", "bob", "ann"], questions=["tea?", "tea?", "milk?"])
    >>> rows.users, rows.items.unit
    ((array([0, 1, 0]),), 'questions')
    >>> Clusters.of(["ann", "bob"], ["bob", "cy"]).users
    (array([0, 1]), array([1, 2]))
    """

    users: Columns
    """One column for rows, two for couples."""
    questions: IntArray | None = None
    texts: tuple[NDArray[np.integer], ...] | None = None
    """Both responses of each row, by any numbers; or one column, where a row is about one."""
    strata: IntArray | None = None
    """Code of each row's group, where a figure compares groups of rows."""

    @classmethod
    def of(
        cls,
        users: Ids | Clusters,
        mirror_users: Ids | None = None,
        *,
        questions: Ids | None = None,
        texts: tuple[Ids, ...] | None = None,
    ) -> Clusters:
        """Number the ids by row; `Clusters` pass as they are.

        `mirror_users` are the other users, where rows are mirrored couples; `texts` are ids of both
        responses, or of the one that a row is about. Raises `ValueError` for a couple of a user
        with themselves or a row with two equal responses.
        """
        if isinstance(users, Clusters):
            if mirror_users is not None or questions is not None or texts is not None:
                raise ValueError("Clusters hold their mirror users, questions and texts already")
            return users
        columns = {"users": users, "mirror users": mirror_users, "questions": questions}
        columns |= {f"texts {k}": column for k, column in enumerate(texts or ())}
        same_length(**{name: ids for name, ids in columns.items() if ids is not None})
        sides = (users,) if mirror_users is None else (users, mirror_users)
        return cls(
            _numbered(sides, "a couple needs two different users"),
            None if questions is None else _numbered((questions,))[0],
            None if texts is None else _numbered(texts, "a row needs two different responses"),
        )

    def __len__(self) -> int:
        """Rows, or couples."""
        return self.users[0].size

    def take(self, rows: NDArray[np.bool_] | IntArray) -> Clusters:
        """Return the clusters of some rows, numbered anew."""
        return Clusters(
            users=compact(*(side[rows] for side in self.users)),
            questions=None if self.questions is None else compact(self.questions[rows])[0],
            texts=None if self.texts is None else tuple(side[rows] for side in self.texts),
            strata=None if self.strata is None else self.strata[rows],
        )

    @property
    def couples(self) -> bool:
        """Whether the units are mirrored couples."""
        return len(self.users) == 2

    @property
    def user(self) -> IntArray:
        """The user of each row; raises `ValueError` for couples, which have two."""
        if len(self.users) > 1:
            raise ValueError("a mean over users is of rows of one user each, not of couples")
        return self.users[0]

    @cached_property
    def n_users(self) -> int:
        """Distinct users."""
        return int(np.unique(np.concatenate(self.users)).size)

    @property
    def by(self) -> str:
        """What intervals are clustered by: ``user``, ``user and question``, ``user and text``."""
        return "user" if self.items is None else CLUSTERED_BY[self.items.unit]

    @cached_property
    def items(self) -> Items | None:
        """The items that users share; None where every item belongs to one user.

        Items are the questions. Where users share a question that holds over half of the rows (of a
        stratum), as a constant instruction does, the items of its rows are their responses.
        """
        if self.questions is None or not len(self) or not _shared(self.users, (self.questions,)):
            return None
        questions = (self.questions,)
        by_text = _dominated(self.questions, self.strata)
        if self.texts is None or not by_text.any():
            return Items(questions, "questions", questions)
        texts = compact(*self.texts)
        question = n_clusters(texts) + self.questions
        # Beside its question, a row of another question lies in a cluster of its own.
        beside = int(question.max()) + 1 + np.arange(len(self))
        columns, counted = (
            compact(*(np.where(by_text, *pair) for pair in zip(texts, others, strict=True)))
            for others in (both[: len(texts)] for both in ((question, beside), (question,) * 2))
        )
        unit = "texts" if by_text.all() else "questions and texts"
        return Items(columns, unit, counted) if _shared(self.users, columns) else None

    def effective(self, weights: FloatArray) -> tuple[float, str]:
        """Effective number of users, or of items where these are fewer, and which it counts."""
        sides = [(effective_number(self.users, weights), "users")]
        if self.items is not None:
            sides.append((effective_number(self.items.counted, weights), self.items.unit))
        return min(sides, key=itemgetter(0))

    @cached_property
    def cells(self) -> Parts:
        """Rows that share a user and an item.

        A pair of rows counts once for every user and every item that both have; pairs of clusters
        that hold both rows are taken off on either side.
        """
        if self.items is None:
            return ()
        return tuple(
            (sign * other_sign, _crossed(ours, theirs))
            for sign, ours in parts_of(self.users)
            for other_sign, theirs in parts_of(self.items.columns)
        )


def parts_of(columns: Columns) -> Parts:
    """One column as it is; of two, the clusters, less the unordered pairs of clusters."""
    if len(columns) == 1:
        return ((1, columns),)
    return (1, columns), (-1, (_dyads(*columns),))


def compact(*columns: NDArray[np.integer]) -> Columns:
    """Number the codes of all columns together, from 0 without gaps.

    >>> compact(np.array([7, 3]), np.array([3, 9]))
    (array([1, 0]), array([0, 2]))
    """
    codes = np.unique(np.concatenate(columns), return_inverse=True)[1].astype(np.int64, copy=False)
    return tuple(np.split(codes, len(columns)))


def pairs_of(first: IntArray, second: IntArray) -> IntArray:
    """Number the pairs of codes (first, second) that occur, from 0.

    >>> pairs_of(np.array([0, 1, 0]), np.array([1, 1, 1]))
    array([0, 1, 0])
    """
    return _crossed((first,), (second,))[0]


def _dyads(first: IntArray, second: IntArray) -> IntArray:
    """Number the unordered pairs of codes that occur, from 0."""
    return pairs_of(np.minimum(first, second), np.maximum(first, second))


def added(columns: Columns, weights: FloatArray) -> FloatArray:
    """Sum of the weights of each cluster's rows; one 0 for no columns, which hold no row.

    >>> added((np.array([0, 1]), np.array([1, 2])), np.array([1.0, 10.0])).tolist()
    [1.0, 11.0, 10.0]
    >>> added((), np.array([1.0, 10.0])).tolist()
    [0.0]
    """
    size = n_clusters(columns)
    return sum((sums(side, weights, size) for side in columns), np.zeros(size))


def n_clusters(columns: Columns) -> int:
    """Clusters that the columns number; 1 without any."""
    return 1 + max((int(side.max(initial=0)) for side in columns), default=0)


def effective_number(columns: Columns, weights: FloatArray) -> float:
    """Effective number of clusters, ``U_eff = (Σ_g w_g)² / Σ_g w_g²``; 0 without rows.

    U for equal sums w_g of the clusters' weights, towards 1 as one cluster takes over.

    >>> effective_number((np.array([0, 0, 1, 1]),), np.ones(4))
    2.0
    """
    sizes = np.maximum(added(columns, weights), 0.0)
    squares = float(sizes @ sizes)
    return float(sizes.sum()) ** 2 / squares if squares else 0.0


def _numbered(columns: tuple[Ids, ...], refusal: str = "") -> Columns:
    codes = np.split(id_codes(list(chain.from_iterable(map(listed, columns))))[0], len(columns))
    if len(codes) == 2 and bool(np.any(codes[0] == codes[1])):
        raise ValueError(refusal)
    return tuple(codes)


def _crossed(ours: Columns, theirs: Columns) -> Columns:
    """Number the clusters of one side within those of the other."""
    return compact(*(a * n_clusters(theirs) + b for a in ours for b in theirs))


def _shared(users: Columns, items: Columns) -> bool:
    """Whether any item, of a numbering without gaps, has rows of two users (pairs of users)."""
    whose = users[0] if len(users) == 1 else _dyads(*users)
    pairs = pairs_of(np.concatenate([whose] * len(items)), np.concatenate(items))
    return n_clusters((pairs,)) > n_clusters(items)


def _dominated(questions: IntArray, strata: IntArray | None) -> NDArray[np.bool_]:
    """Rows of the questions that hold over half of the rows of any stratum."""
    whole = np.zeros_like(questions) if strata is None else strata
    cells = pairs_of(whole, questions)
    over_half = 2 * np.bincount(cells)[cells] > np.bincount(whole)[whole]
    return np.isin(questions, questions[over_half])


ValueWithout = Callable[[Columns], FloatArray]
"""A figure without the rows of each cluster in turn, by code; without columns, the figure itself.
Not finite where nothing would be left."""


def jackknife(
    value_without: ValueWithout, weights: FloatArray, clusters: Clusters, constant: bool = False
) -> Spread:
    """Spread of a figure by user and item: its variance and its effective number of clusters.

    `weights` say how much of the figure rests on each row, shape (rows,); that it is `constant`,
    every residual 0, the caller knows.

    Two users agree on each of three questions, so there are three values and not six:

    >>> x, rows = np.array([1.0, 1, 0, 0, 1, 1]), Clusters.of("abcdef", questions="xxyyzz")
    >>> spread = jackknife(ratio(x, np.ones(6)), np.ones(6), rows)
    >>> round(spread.variance, 3), spread.effective, spread.unit
    (0.111, 3.0, 'questions')
    """
    parts = variances(value_without, weights, clusters)
    effective, unit = clusters.effective(weights)
    variance = None
    if parts is not None:
        of_users, of_items, of_cells = parts
        variance = max(of_users, of_users + of_items - of_cells)  # the sum may be negative
    return Spread(variance, effective, constant, unit, len(clusters), clusters.n_users)


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
