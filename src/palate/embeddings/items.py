"""One response to one question, as it is embedded."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from palate.prompts import render
from palate.records import Message, Slate


class Item(NamedTuple):
    """A response, the question it answers, and nothing of the user but what is shown."""

    question: tuple[Message, ...]
    response: str


def items_of(slate: Slate) -> list[Item]:
    """Return one item per candidate; what the context shows is part of the question."""
    question = render(slate.question, slate.shown)
    return [Item(question, text) for text in slate.candidates]


def plain_item(question: tuple[Message, ...], response: str) -> Item:
    """Return the item of a question with nothing shown."""
    return Item(render(question), response)


def distinct(items: Iterable[Item]) -> tuple[list[Item], list[int]]:
    """Return each item once, and for every given item its position among them.

    >>> question = (Message(role="user", content="q"),)
    >>> a, b = plain_item(question, "a"), plain_item(question, "b")
    >>> distinct([a, b, a])[1]
    [0, 1, 0]
    """
    places: dict[Item, int] = {}
    positions = [places.setdefault(item, len(places)) for item in items]
    return list(places), positions
