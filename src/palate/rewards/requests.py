"""Requests of a reward: answers to a row of the data, or to a question of a user in the call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, Self, runtime_checkable

from pydantic import FiniteFloat, model_validator

from palate.records import Message, Record, Scores, User


class RewardRequest(Record):
    """Answers to one question of one user: a row of the data by id, or both in the call.

    >>> RewardRequest(responses=("Tea.",), row="ann-1").row
    'ann-1'
    >>> RewardRequest(responses=("Tea.",), question="Tea?", user=User(id="ann")).user.id
    'ann'

    Raises `ValueError` for a row beside a question, turns or a user, and for one of these alone.
    """

    responses: tuple[str, ...]
    """They are one slate: what they share is read once."""
    row: str | None = None
    question: str | None = None
    turns: tuple[Message, ...] = ()
    """What was said before the question, oldest first."""
    user: User | None = None
    """With their posts before the question, oldest first, and their earlier choices."""

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        given = self.question is not None, self.user is not None
        if given != (self.row is None,) * 2:
            raise ValueError("expected a row, or a question and a user")
        if self.turns and self.row is not None:
            raise ValueError("a row brings its own turns")
        return self


class HasText(Protocol):
    """An answer, however it was drawn."""

    @property
    def text(self) -> str:
        """What it says."""


def row_requests(rows: Sequence[str], answers: Sequence[Sequence[HasText]]) -> list[RewardRequest]:
    """Return a request for the answers to each row of the data."""
    return [
        RewardRequest(row=row, responses=tuple(answer.text for answer in of_row))
        for row, of_row in zip(rows, answers, strict=True)
    ]


class RatedResponse(Record):
    """What a user gave a response, on a scale of their own."""

    question: str
    response: str
    rating: FiniteFloat
    turns: tuple[Message, ...] = ()
    """What was said before the question, oldest first."""


@runtime_checkable
class ReadsRendered(Protocol):
    """A scorer that also reads conversations as a chat template wrote them, whoever's they are."""

    def score_rendered(self, texts: Sequence[str]) -> Scores:
        """Return one number for each text, in order."""
