"""Whom we judge for: what a user wrote, chose, and said of themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import SerializerFunctionWrapHandler, model_serializer

from palate.records.conversations import Message, conversation, of_user, question_key
from palate.records.dates import DateText, Instant, instant_of
from palate.records.record import Record
from palate.seeding import digest


class Post(Record):
    """One thing a user wrote."""

    id: str
    category: str = ""
    text: str
    date: DateText | None = None
    """As it came; without it the order of the file counts, oldest first."""

    @property
    def instant(self) -> Instant | None:
        """When it was written."""
        return instant_of(self.date)


class Choice(Record):
    """One earlier preference of a user."""

    question: str
    chosen: str
    rejected: str
    turns: tuple[Message, ...] = ()
    """What was said before the question, oldest first."""

    @property
    def messages(self) -> tuple[Message, ...]:
        """The question as the user's last message, after the turns before it."""
        return conversation(self.turns, self.question)

    @property
    def query(self) -> str:
        """What it is searched for by: all that the user asked."""
        return of_user(self.turns, self.question)

    @property
    def key(self) -> str:
        """What tells its question, turns included, from others."""
        return question_key(self.turns, self.question)

    @model_serializer(mode="wrap")
    def _without_empty_turns(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        # Hashes of choices of one turn stay what they were before there were turns.
        fields: dict[str, Any] = handler(self)
        return fields if self.turns else {n: v for n, v in fields.items() if n != "turns"}


class RubricAspect(Record):
    """One thing this user expects of a good answer; gold, never shown to a scorer."""

    aspect: str
    reason: str = ""
    evidence: str = ""


class User(Record):
    """One person: an id, what they wrote, what they preferred, what they said of themselves."""

    id: str
    posts: tuple[Post, ...] = ()
    choices: tuple[Choice, ...] = ()
    traits: Mapping[str, str] = {}


def user_key(user_id: str) -> str:
    """Return the opaque key under which a personal scorer keeps this user's state.

    >>> user_key("turker0047")[:8]
    'a0431eb0'
    """
    return digest("user", user_id)[:32]
