"""A user's numbers for the responses of a row, beside the scorer's."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from palate.records import Record

Pair = tuple[float | None, float | None]


class RatedPair(Record):
    """Ratings and scores of one row's two responses, the chosen one first."""

    ratings: Pair
    """As the user gave them; None where one was not rated."""
    scale: tuple[float, float] | None = None
    """Lowest and highest rating there could have been; None where the data do not say."""
    scores: Pair = (None, None)
    """What the scorer gave; None where unscored, and of a judge, which scores no response alone."""
    response_hashes: tuple[str, str]
    """Hash of (question, response): what was rated twice has one hash."""


class RatedColumns(NamedTuple):
    """The rated rows, 80 bytes each; shape (rated rows, 2) throughout."""

    ratings: NDArray[np.float64]
    scales: NDArray[np.float64]
    """NaN where the data name no scale."""
    scores: NDArray[np.float64]
    responses: NDArray[np.bytes_]

    def row(self, place: int) -> RatedPair:
        """Return one row's."""
        low, high = self.scales[place].tolist()
        first, second = self.responses[place].tolist()
        return RatedPair(
            ratings=_pair(self.ratings[place]),
            scale=None if math.isnan(low) else (low, high),
            scores=_pair(self.scores[place]),
            response_hashes=(first.decode(), second.decode()),
        )


def _pair(numbers: NDArray[np.float64]) -> Pair:
    first, second = numbers.tolist()
    return None if math.isnan(first) else first, None if math.isnan(second) else second
