"""Texts that give the answer away: those that hold what the user asks, or a response."""

from __future__ import annotations

from palate.data.rows import asked_title, telling_turns
from palate.records import QuestionView, normal_form
from palate.words import opening

OPENING = 120


def forbidden_texts(view: QuestionView) -> tuple[str, ...]:
    """Return the openings no shown post may hold: of question, turns and responses.

    First 120 characters of their normal form in lower case (in scripts without spaces as much text:
    33 in Chinese): of the question its first line, of the user's earlier turns those of 30 bytes or
    more.
    """
    title, turns = asked_title(view.text), telling_turns(view.turns)
    openings = (opening(text, OPENING) for text in (title, *(turn.lower() for turn in turns)))
    return (*(text for text in openings if text), *forbidden_responses(view))


def forbidden_responses(view: QuestionView) -> tuple[str, ...]:
    """Return the openings no past choice may hold: of the responses.

    The question may return: many people choose twice on one question.
    """
    return tuple(opening(plain, OPENING) for plain in map(normal, view.responses) if plain)


def leaks(text: str, forbidden: tuple[str, ...]) -> bool:
    """Tell whether a text holds one of the forbidden openings.

    >>> leaks("Once more: why  TEA? Because.", ("why tea?",))
    True
    """
    return holds(normal(text), forbidden)


def holds(plain: str, forbidden: tuple[str, ...]) -> bool:
    """Tell the same of a text that is normal already."""
    return any(beginning in plain for beginning in forbidden)


def normal(text: str) -> str:
    """Return a text's normal form in lower case."""
    return normal_form(text).lower()
