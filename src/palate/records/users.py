"""Whom we judge for: what a user wrote, chose, and said of themselves."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict

from palate.records.dates import DateText, Instant, instant_of
from palate.seeding import digest


class Record(BaseModel):
    """A frozen record; unknown fields are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


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
