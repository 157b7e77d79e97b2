"""One row of a run on disk."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from palate.records import Outcome, Record
from palate.runs.rated import RatedPair
from palate.seeding import digest

WHERE_GIVEN = ("share", "category", "traits", "date", "ratings")
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
