"""Posts that give the answer away: those that hold the question's first line or a response."""

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
    openings = (asked_title(pair.question), normal(pair.chosen), normal(pair.rejected))
    return tuple(opening[:OPENING] for opening in openings if opening)


def leaks(text: str, forbidden: tuple[str, ...]) -> bool:
    """Tell whether a text holds one of the forbidden openings.

    >>> leaks("Once more: why  TEA? Because.", ("why tea?",))
    True
    """
    return any(opening in normal(text) for opening in forbidden)


def normal(text: str) -> str:
    """Return a text in lower case, white space collapsed."""
    return SPACE.sub(" ", text).strip().lower()
