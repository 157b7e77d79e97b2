"""Texts of data made safe for a terminal."""

from __future__ import annotations

import unicodedata

ALLOWED = "\n\t"
DIRECTIONS = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"


def printable(text: str) -> str:
    """Return text with `�` for each control character and each change of direction.

    >>> printable("\\x1b[2Jgone"), printable("two\\nlines")
    ('�[2Jgone', 'two\\nlines')
    """
    return "".join("\ufffd" if _is_control(character) else character for character in text)


def _is_control(character: str) -> bool:
    if character in ALLOWED:
        return False
    return unicodedata.category(character) == "Cc" or character in DIRECTIONS
