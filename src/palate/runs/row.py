"""Rows of a run on disk, and the ratings and names in them as compact columns."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from palate.records import Outcome, Record
from palate.seeding import digest

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


class NameCodes:
    """Few different texts, numbered in order of appearance."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self._codes: dict[str, int] = {}

    def code(self, name: str) -> int:
        """Return the number of a name, a new one where it has none yet."""
        code = self._codes.setdefault(name, len(self.names))
        if code == len(self.names):
            self.names.append(name)
        return code


WHERE_GIVEN = ("share", "category", "traits", "date", "ratings", "alike", "in_two_forms")
"""Fields that are written only where a row has them."""


TextHash = Annotated[str, Field(pattern="^[0-9a-f]{16}$")]
"""64 bits in hexadecimal, as `VerdictRow.hash_of` gives them."""


class VerdictRow(Record):
    """One row's verdict with what statistics need of its pair."""

    id: str
    content_hash: str
    """Of question and responses: rows are paired between runs by id and content."""
    question_hash: TextHash
    """Users who were asked the same are told by it."""
    response_hashes: tuple[TextHash, TextHash]
    """Of chosen and rejected."""
    user: str
    subset: str
    mirror_of: str | None
    outcome: Outcome
    margin: float | None
    share: float | None = None
    """Of a mean over several verdicts, such as third users': the share that chosen won. Then there
    is no margin, and the outcome says whether the share is above, at or below ½."""
    orders: tuple[float | None, ...] = ()
    chosen_first: bool = True
    """Whether the chosen response stood first in the slate."""
    reason: str | None = None
    own_words: int = 0
    lengths: tuple[int, int]
    """Characters of chosen and rejected."""
    category: str = ""
    traits: Mapping[str, str] = {}
    """What the user said of themselves."""
    date: str | None = None
    """When the row was asked, as it came."""
    ratings: RatedPair | None = None
    """Where the user rated a response: the ratings and the scores."""
    alike: bool | None = None
    """Whether the user chose so again, where the user was asked once more."""
    in_two_forms: bool | None = None
    """True where the couple's texts are one in normal form alone, so other bytes are read."""

    @staticmethod
    def hash_of(text: str) -> str:
        """Return the hash by which rows name a question or a response.

        >>> VerdictRow.hash_of("Tea?")
        'df02346fb8e15013'
        """
        return digest(text)[:16]

    def line(self) -> str:
        """Return the row as one line of JSON."""
        return self.model_dump_json(
            exclude={name for name in WHERE_GIVEN if getattr(self, name) in (None, "", {})}
        )
