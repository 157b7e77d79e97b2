"""Texts that give the answer away: those that hold the question's first line or a response."""

from __future__ import annotations

import re

from palate.data import asked_title
from palate.records import PreferencePair

OPENING = 120
SPACE = re.compile(r"\s+")


def forbidden_texts(pair: PreferencePair) -> tuple[str, ...]:
    """Return the openings no shown post may hold: of the question, chosen and rejected.

    First 120 characters, lower case, white space collapsed.
    """
    opening = asked_title(pair.question)[:OPENING]
    return (*((opening,) if opening else ()), *forbidden_responses(pair))


def forbidden_responses(pair: PreferencePair) -> tuple[str, ...]:
    """Return the openings no past choice may hold: of chosen and rejected.

    The question may return: many people choose twice on one question.
    """
    openings = (normal(pair.chosen), normal(pair.rejected))
    return tuple(opening[:OPENING] for opening in openings if opening)


def leaks(text: str, forbidden: tuple[str, ...]) -> bool:
    """Tell whether a text holds one of the forbidden openings.

    >>> leaks("Once more: why  TEA? Because.", ("why tea?",))
    True
    """
    return holds(normal(text), forbidden)


def holds(plain: str, forbidden: tuple[str, ...]) -> bool:
    """Tell the same of a text that is normal already."""
    return any(opening in plain for opening in forbidden)


def normal(text: str) -> str:
    """Return a text in lower case, white space collapsed."""
    return SPACE.sub(" ", text).strip().lower()
