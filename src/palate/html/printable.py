"""Texts of data, of which nothing acts, hides or turns the line around."""

from __future__ import annotations

import re

UNSAFE = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
    "\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]"
)
"""Control characters, controls of direction, surrogates, and what no document may hold."""


def printable(text: str) -> str:
    """Return a text that is safe in a terminal, and in HTML, SVG and PDF once it is escaped.

    >>> printable("a\\x1b[31m\\u202eb")
    'a�[31m�b'
    """
    return UNSAFE.sub("\ufffd", text.replace("\r\n", "\n").replace("\r", "\n"))
