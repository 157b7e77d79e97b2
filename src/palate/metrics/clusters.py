"""What makes rows depend on each other: the users who answered, the questions, the responses."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from palate.metrics.arrays import FloatArray, Ids, IntArray, id_codes, same_length, sums, vector

Columns = tuple[IntArray, ...]
"""Codes of each row's cluster, from 0: one column, or two of one numbering where a row lies in two
clusters, as a couple lies in those of both its users."""


class Items(NamedTuple):
    """What is judged, beside who judges it."""

    columns: Columns
    unit: str
    """``questions`` or ``texts``."""


class Part(NamedTuple):
    """Some columns whose squared moves are added or taken off."""

    sign: int
    columns: Columns


@dataclass(frozen=True, eq=False)
class Clusters:
    """Users of each row or mirrored couple, and where they are known its question and texts.

    Example:
        >>> rows = Clusters.of(["ann", "bob", "ann"], questions=["tea?", "tea?", "milk?"])
        >>> rows.users, rows.items.unit
        ((array([0, 1, 0]),), 'questions')
        >>> Clusters.of(["ann", "bob"], ["bob", "cy"]).users
        (array([0, 1]), array([1, 2]))
    """

    users: Columns
    """One column for rows, two for couples."""
    questions: IntArray | None = None
    texts: Columns | None = None
    """Two columns, both responses of each row; or one, where a row is about one response."""
    strata: IntArray | None = None
    """Code of each row's group, where a figure compares groups of rows."""

    @classmethod
    def of(
        cls,
        users: Ids | Clusters,
        partners: Ids | None = None,
        *,
        questions: Ids | None = None,
        texts: tuple[Ids, ...] | None = None,
    ) -> Clusters:
        """Number the ids; `Clusters` pass as they are.

        Args:
            users: the user id of each row.
            partners: the other user of each row, where rows are mirrored couples.
            questions: the question id of each row.
            texts: ids of both responses of each row, or of the one that a row is about.

        Raises:
            ValueError: for columns of unequal length, a NaN id, a couple of a user with themselves
                or a row with two equal responses.
        """
        if isinstance(users, Clusters):
            return users
        sides = (users,) if partners is None else (users, partners)
        columns = {"users": users, "partners": partners, "questions": questions}
        columns |= {f"texts {k}": column for k, column in enumerate(texts or ())}
        same_length(**{name: ids for name, ids in columns.items() if ids is not None})
        return cls(
            users=_numbered(sides, "a couple needs two different users"),
            questions=None if questions is None else _numbered((questions,))[0],
            texts=None
            if texts is None
            else _numbered(texts, "a row needs two different responses"),
        )

    def __len__(self) -> int:
        """Rows, or couples."""
        return self.users[0].size

    def take(self, rows: NDArray[np.bool_] | IntArray) -> Clusters:
        """Return the clusters of some rows, numbered anew."""
        return Clusters(
            users=compact(*(side[rows] for side in self.users)),
            questions=None if self.questions is None else compact(self.questions[rows])[0],
            texts=None if self.texts is None else compact(*(side[rows] for side in self.texts)),
            strata=None if self.strata is None else self.strata[rows],
        )

    @property
    def couples(self) -> bool:
        """Whether the units are mirrored couples."""
        return len(self.users) == 2

    @cached_property
    def n_users(self) -> int:
        """Distinct users."""
        return int(np.unique(np.concatenate(self.users)).size)

    @property
    def by(self) -> str:
        """What intervals are clustered by: ``user``, ``user and question``, ``user and text``."""
        return "user" if self.items is None else f"user and {self.items.unit.removesuffix('s')}"

    @cached_property
    def items(self) -> Items | None:
        """The items that users share; None where every question belongs to one user.

        Items are the questions. Where one question holds over half of the rows (of a stratum), as a
        constant instruction does, items are the two responses of each row.
        """
        if self.questions is None or not len(self) or not _shared(self.users, (self.questions,)):
            return None
        if self.texts is None or not _dominated(self.questions, self.strata):
            return Items((self.questions,), "questions")
        return Items(self.texts, "texts") if _shared(self.users, self.texts) else None

    @cached_property
    def cells(self) -> tuple[Part, ...]:
        """Rows that share a user and an item.

        A pair of rows counts once for every user and every item that both have; pairs of clusters
        that hold both rows are taken off on either side.
        """
        if self.items is None:
            return ()
        return tuple(
            Part(ours.sign * theirs.sign, _crossed(ours.columns, theirs.columns))
            for ours in parts_of(self.users)
            for theirs in parts_of(self.items.columns)
        )


def parts_of(columns: Columns) -> tuple[Part, ...]:
    """One column as it is; of two, the clusters, less the unordered pairs of clusters."""
    if len(columns) == 1:
        return (Part(1, columns),)
    return Part(1, columns), Part(-1, (dyads(*columns),))


def compact(*columns: IntArray) -> Columns:
    """Number the codes of all columns together, from 0 without gaps.

    Example:
        >>> compact(np.array([7, 3]), np.array([3, 9]))
        (array([1, 0]), array([0, 2]))
    """
    codes = np.unique(np.concatenate(columns), return_inverse=True)[1].astype(np.int64)
    return tuple(np.split(codes, len(columns)))


def pairs_of(first: IntArray, second: IntArray) -> IntArray:
    """Number the pairs of codes (first, second) that occur, from 0.

    Example:
        >>> pairs_of(np.array([0, 1, 0]), np.array([1, 1, 1]))
        array([0, 1, 0])
    """
    width = int(second.max(initial=0)) + 1
    return compact(first * width + second)[0]


def dyads(first: IntArray, second: IntArray) -> IntArray:
    """Number the unordered pairs of codes that occur, from 0.

    Example:
        >>> dyads(np.array([0, 1, 2]), np.array([1, 0, 1]))
        array([0, 0, 1])
    """
    return pairs_of(np.minimum(first, second), np.maximum(first, second))


def added(columns: Columns, weights: FloatArray) -> FloatArray:
    """Sum of the weights of each cluster's rows; one 0 for no columns, which hold no row.

    Example:
        >>> added((np.array([0, 1]), np.array([1, 2])), np.array([1.0, 10.0])).tolist()
        [1.0, 11.0, 10.0]
        >>> added((), np.array([1.0, 10.0])).tolist()
        [0.0]
    """
    size = 1 + max((int(side.max(initial=-1)) for side in columns), default=0)
    total = np.zeros(size)
    for side in columns:
        total += sums(side, weights, size)
    return total


def effective_number(columns: Columns, weights: FloatArray) -> float:
    """Effective number of clusters, ``(Σ_g w_g)² / Σ_g w_g²`` over the sums of their weights.

    Example:
        >>> effective_number((np.array([0, 0, 1, 1]),), np.ones(4))
        2.0
    """
    return effective_units(np.maximum(added(columns, weights), 0.0))


def effective_units(counts: FloatArray | list[int]) -> float:
    """Effective number of units, ``U_eff = (Σ_u n_u)² / Σ_u n_u²``; 0 without rows.

    U for equal counts, towards 1 as one unit takes over.

    Raises:
        ValueError: for a negative or NaN count.

    Example:
        >>> effective_units([5, 5, 5, 5]), round(effective_units([97, 1, 1, 1]), 3)
        (4.0, 1.062)
    """
    n = vector(counts)
    if not bool(np.all(n >= 0)):
        raise ValueError("counts must be 0 or more")
    squares = float(n @ n)
    return float(n.sum()) ** 2 / squares if squares else 0.0


def _numbered(columns: tuple[Ids, ...], refusal: str = "") -> Columns:
    listed = [x.tolist() if isinstance(x, np.ndarray) else x for x in columns]
    codes = tuple(np.split(id_codes(list(chain.from_iterable(listed)))[0], len(columns)))
    if len(codes) == 2 and bool(np.any(codes[0] == codes[1])):
        raise ValueError(refusal)
    return codes


def _crossed(ours: Columns, theirs: Columns) -> Columns:
    """Number the clusters of one side within those of the other."""
    width = 1 + max(int(side.max(initial=0)) for side in theirs)
    return compact(*(a * width + b for a in ours for b in theirs))


def _shared(users: Columns, items: Columns) -> bool:
    whose = users[0] if len(users) == 1 else dyads(*users)
    pairs = compact(np.concatenate([whose] * len(items)))[0], np.concatenate(items)
    return int(np.unique(pairs_of(*pairs)).size) > int(np.unique(pairs[1]).size)


def _dominated(questions: IntArray, strata: IntArray | None) -> bool:
    cells = questions if strata is None else pairs_of(strata, questions)
    whole = np.zeros_like(questions) if strata is None else strata
    rows = np.bincount(cells)
    stratum = np.zeros(rows.size, dtype=np.int64)
    stratum[cells] = whole
    return bool(np.any(2 * rows > np.bincount(whole)[stratum]))
