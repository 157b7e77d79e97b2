"""The units of a curve, rows or mirrored couples, and what makes them depend on each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from palate.metrics.arrays import FloatArray, Ids, IntArray, id_codes, same_length
from palate.metrics.clusters import Clusters, Columns


@dataclass(frozen=True, slots=True, eq=False)
class Units:
    """Which rows count, and the clusters of the units that they make."""

    usable: NDArray[np.bool_]
    """Which rows count; both of a couple or none."""
    rows: Columns
    """Of each unit its row, or both its rows."""
    clusters: Clusters

    @classmethod
    def of(
        cls,
        users: Ids,
        questions: Ids | None,
        usable: NDArray[np.bool_],
        mirrors: Sequence[int] | IntArray | None = None,
    ) -> Units:
        """Gather the units of the usable rows.

        With ``mirrors``, the number of each row's mirrored row, units are couples, and a couple of
        which one row is not usable does not count.

        >>> usable = np.array([True, True, False])
        >>> users, questions = ["ann", "bob", "cy"], ["milk?", "milk?", "tea?"]
        >>> Units.of(users, questions, usable).clusters.items.unit
        'questions'
        >>> Units.of(["ann", "ann", "cy"], questions, usable).clusters.items
        >>> Units.of(["ann", "bob"], None, usable[:2], [1, 0]).clusters.users
        (array([0]), array([1]))
        """
        same_length(rows=usable, users=users, questions=users if questions is None else questions)
        codes = id_codes(users)[0]
        rows: Columns
        if mirrors is None:
            rows = (np.flatnonzero(usable),)
        else:
            there = _mirrors(mirrors, codes)
            usable = usable & usable[there]
            first = np.flatnonzero(usable & (np.arange(len(usable)) < there))
            rows = first, there[first]
        question = None if questions is None else id_codes(questions)[0][rows[0]]
        return cls(usable, rows, Clusters.of(*(codes[side] for side in rows), questions=question))

    def values(self, of_rows: FloatArray) -> FloatArray:
        """Value of each unit: of its row, or the mean of its two rows; of shape (rows, …)."""
        first, *second = (of_rows[side] for side in self.rows)
        return (first + second[0]) / 2 if second else first


def _mirrors(mirrors: Sequence[int] | IntArray, users: IntArray) -> IntArray:
    there = np.asarray(mirrors, dtype=np.int64)
    same_length(mirrors=there, users=users)
    n = there.size
    if bool(np.any((there < 0) | (there >= n))) or bool(np.any(there[there] != np.arange(n))):
        raise ValueError("mirrors: each row's mirrored row must name that row as its own")
    if bool(np.any(users[there] == users)):
        raise ValueError("mirrors: the two rows of a couple need two different users")
    return there
