"""Where sentences end: at line breaks, and after a stop."""

from __future__ import annotations

import re

from palate.words import ENDS

MARK = re.compile(r"\s*+(?:[-*+•#>–—]++\s++)*+(?:\d{1,3}[.)]\s++)?+")
"""Signs of lists, headings and quotations, and a number; each only before a space."""
STOP = re.compile(rf"((?:[.!?…{ENDS}]|．(?!\d))++[\"'”’»›)\]}}」』）】*_`]*+)(\s*+)")
"""Stops and what closes with them, then white space. Possessive: a line of dots takes no longer."""
CLOSED = re.compile(f"[{ENDS}．]")


def sentences(text: str) -> tuple[str, ...]:
    """Split a text; every letter of it is in exactly one sentence, in order.

    A stop ends a sentence before a space, one of another script (。 ؟ ।) in any case. List markers
    and pieces without a letter or digit are dropped; a text of nothing else is one sentence, so
    that only a blank text has none. Thai, which has no stops, is split at line breaks alone.

    >>> sentences("- Buy Assam. It costs 3.50!\\n***\\n2. Skip the milk")
    ('Buy Assam.', 'It costs 3.50!', 'Skip the milk')
    """
    lines = (line[_marked(line) :] for line in text.splitlines())
    pieces = (piece.strip() for line in lines for piece in STOP.sub(_ended, line).split("\n"))
    found = tuple(piece for piece in pieces if any(c.isalnum() for c in piece))
    whole = text.strip()
    return found or ((whole,) if whole else ())


def _marked(line: str) -> int:
    found = MARK.match(line)
    return found.end() if found else 0


def _ended(match: re.Match[str]) -> str:
    stop, space = match.groups()
    return f"{stop}\n" if space or CLOSED.search(stop) else stop
