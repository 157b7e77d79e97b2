"""What makes the rows of a curve depend on each other: users, their mirrors, shared questions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from palate.metrics.arrays import FloatArray, Ids, IntArray, id_codes, same_length
from palate.metrics.estimates import Estimate, Spread
from palate.metrics.two_way import (
    Moves,
    Owners,
    effective,
    owner_variance,
    shared,
    two_way_mean,
    two_way_variance,
)


@dataclass(frozen=True, slots=True)
class Clusters:
    """The units of a curve, rows or mirrored couples, with their users and questions."""

    kept: NDArray[np.bool_]
    """Which rows count; both of a couple or none."""
    rows: Owners
    """Of each unit its row, or both its rows."""
    owners: Owners
    """Of each unit the number of its user, from 0, or of both its users."""
    questions: IntArray | None
    """Number of each unit's question, from 0; None where no two of them share one."""

    @classmethod
    def of(
        cls,
        users: Ids,
        questions: Ids | None,
        kept: NDArray[np.bool_],
        mirrors: Sequence[int] | IntArray | None = None,
    ) -> Clusters:
        """Number the users and questions of those rows that are kept.

        With ``mirrors``, the number of each row's mirrored row, units are couples, and a couple of
        which one row is not kept is not kept.

        Raises:
            ValueError: for unequal lengths, a NaN id, or mirrors that are not each other's.

        Example:
            >>> kept = np.array([True, True, False])
            >>> Clusters.of(["ann", "bob", "cy"], ["milk?", "milk?", "tea?"], kept).questions
            array([0, 0])
            >>> Clusters.of(["ann", "ann", "cy"], ["milk?", "milk?", "tea?"], kept).questions
            >>> Clusters.of(["ann", "bob"], None, kept[:2], [1, 0]).owners
            (array([0]), array([1]))
        """
        same_length(rows=kept, users=users)
        codes = id_codes(users)[0]
        rows: Owners
        if mirrors is None:
            rows = (np.flatnonzero(kept),)
        else:
            there = _mirrors(mirrors, codes)
            kept = kept & kept[there]
            first = np.flatnonzero(kept & (np.arange(len(kept)) < there))
            rows = first, there[first]
        own = np.split(id_codes(np.concatenate([codes[side] for side in rows]))[0], len(rows))
        owners: Owners = (own[0],) if len(own) == 1 else (own[0], own[1])
        if questions is None:
            return cls(kept, rows, owners, None)
        same_length(rows=kept, questions=questions)
        asked = id_codes(id_codes(questions)[0][rows[0]])[0]
        return cls(kept, rows, owners, asked if shared(owners, asked) else None)

    @property
    def by_user_alone(self) -> bool:
        """Whether nothing but a user's own rows depend on each other."""
        return self.questions is None and not self.couples

    @property
    def couples(self) -> bool:
        """Whether units are couples."""
        return len(self.owners) == 2

    def of_units(self, values: FloatArray) -> FloatArray:
        """Return the value of each unit: of its row, or the mean of its two rows.

        Args:
            values: shape (rows, …), those of all rows.
        """
        if len(self.rows) == 1:
            return values[self.rows[0]]
        first, second = self.rows
        return (values[first] + values[second]) / 2

    def mean(self, values: FloatArray, null: float, bounds: tuple[float, float]) -> Estimate:
        """Mean over the units with the jackknife interval over these clusters."""
        mirrored = None if len(self.owners) == 1 else self.owners[1]
        return two_way_mean(
            values, self.owners[0], self.questions, mirrored=mirrored, null=null, bounds=bounds
        )

    def variance(self, moves: Moves, weights: FloatArray) -> float | None:
        """Variance of a weighted figure, given what it moves without each owner."""
        if self.questions is None:
            return owner_variance(moves, self.owners, weights)
        return two_way_variance(moves, self.owners, self.questions, weights)

    def spread(self, weights: FloatArray, moves: Moves, *, constant: bool) -> Spread:
        """Spread of a weighted figure, given what it moves without each owner."""
        u_eff = effective(self.owners, weights)
        if self.questions is not None:
            u_eff = min(u_eff, effective((self.questions,), weights))
        return Spread(self.variance(moves, weights), u_eff, constant)

    @property
    def n_users(self) -> int:
        """Distinct users."""
        return int(np.unique(np.concatenate(self.owners)).size)


def _mirrors(mirrors: Sequence[int] | IntArray, users: IntArray) -> IntArray:
    there = np.asarray(mirrors, dtype=np.int64)
    same_length(mirrors=there, users=users)
    n = there.size
    if bool(np.any((there < 0) | (there >= n))) or bool(np.any(there[there] != np.arange(n))):
        raise ValueError("mirrors: each row's mirrored row must name that row as its own")
    if bool(np.any(users[there] == users)):
        raise ValueError("mirrors: the two rows of a couple need two different users")
    return there
