"""What a user's numbers for the responses of a row are, beside the scorer's."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from palate.records import Record
from palate.runs.columns import Column

Pair = tuple[float | None, float | None]


class Rated(Record):
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

    def row(self, place: int) -> Rated:
        """Return one row's."""
        low, high = self.scales[place].tolist()
        first, second = self.responses[place].tolist()
        return Rated(
            ratings=_pair(self.ratings[place]),
            scale=None if math.isnan(low) else (low, high),
            scores=_pair(self.scores[place]),
            response_hashes=(first.decode(), second.decode()),
        )


class RatedRows:
    """Rated rows on their way into columns; rows without ratings cost nothing here."""

    def __init__(self) -> None:
        self._rows, self._count = 0, 0
        self._where: Column[int] = Column("i4")
        self._numbers = [Column[float]("f8") for _ in range(3)]
        self._responses: Column[bytes] = Column("S")

    def add(self, rated: Rated | None) -> None:
        """Take a row's."""
        self._rows += 1
        if rated is None:
            return
        self._where.add(self._rows - 1)
        given = (rated.ratings, rated.scale or (None, None), rated.scores)
        for column, pair in zip(self._numbers, given, strict=True):
            for number in pair:
                column.add(np.nan if number is None else number)
        for response in rated.response_hashes:
            self._responses.add(response.encode())
        self._count += 1

    def places(self) -> NDArray[np.int32]:
        """Return where each row's numbers stand, -1 for none; empty where no row has any."""
        if not self._count:
            return np.zeros(0, dtype=np.int32)
        found = np.full(self._rows, -1, dtype=np.int32)
        found[self._where.array()] = np.arange(self._count)
        return found

    def columns(self) -> RatedColumns:
        """Return all rated rows."""
        ratings, scales, scores = (column.array().reshape(-1, 2) for column in self._numbers)
        return RatedColumns(ratings, scales, scores, self._responses.array().reshape(-1, 2))


def _pair(numbers: NDArray[np.float64]) -> Pair:
    first, second = numbers.tolist()
    return None if math.isnan(first) else first, None if math.isnan(second) else second
