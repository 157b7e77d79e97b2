"""What makes the rows of a curve depend on each other: users, and questions that users share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from palate.metrics.arrays import FloatArray, Ids, IntArray, id_codes, same_length, sums
from palate.metrics.clustered import effective_units
from palate.metrics.estimates import Estimate, Spread
from palate.metrics.two_way import shared, two_way_mean, two_way_variance


@dataclass(frozen=True, slots=True, eq=False)
class Clusters:
    """Users and questions of some rows."""

    users: IntArray
    """Number of each row's user, from 0."""
    questions: IntArray | None
    """Number of each row's question, from 0; None where no two users share one."""

    @classmethod
    def of(cls, users: Ids, questions: Ids | None, kept: NDArray[np.bool_]) -> Clusters:
        """Number those of the rows that are kept.

        Raises:
            ValueError: for unequal lengths or a NaN id.

        Example:
            >>> kept = np.array([True, True, False])
            >>> Clusters.of(["ann", "bob", "cy"], ["milk?", "milk?", "tea?"], kept).questions
            array([0, 0])
            >>> Clusters.of(["ann", "ann", "cy"], ["milk?", "milk?", "tea?"], kept).questions
        """
        same_length(rows=kept, users=users)
        by_user = _numbered(users, kept)
        if questions is None:
            return cls(by_user, None)
        same_length(rows=kept, questions=questions)
        by_question = _numbered(questions, kept)
        return cls(by_user, by_question if shared(by_user, by_question) else None)

    def mean(self, values: FloatArray, null: float, bounds: tuple[float, float]) -> Estimate:
        """Mean of the rows with the jackknife interval over these clusters."""
        return two_way_mean(values, self.users, self.questions, null=null, bounds=bounds)

    def spread(
        self, weights: FloatArray, variance: Callable[[IntArray], float | None], *, constant: bool
    ) -> Spread:
        """Spread of a weighted figure, given its jackknife variance over any clustering."""
        u_eff = _effective(self.users, weights)
        if self.questions is None:
            return Spread(variance(self.users), u_eff, constant)
        both = two_way_variance(variance, self.users, self.questions)
        return Spread(both, min(u_eff, _effective(self.questions, weights)), constant)


def _numbered(ids: Ids, kept: NDArray[np.bool_]) -> IntArray:
    return id_codes(id_codes(ids)[0][kept])[0]


def _effective(codes: IntArray, weights: FloatArray) -> float:
    return effective_units(np.maximum(sums(codes, weights, 0), 0.0))
