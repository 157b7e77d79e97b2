"""Text as HTML: what would act, hide or turn the line around is no text."""

from __future__ import annotations

import re

from markupsafe import Markup, escape

UNSAFE = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
    "\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]"
)
"""Control characters, controls of direction, surrogates, and what no document may hold."""


def clean(text: str) -> str:
    """Return a text that is safe in HTML, SVG and PDF once it is escaped.

    >>> clean("a\\x1b[31m\\u202eb")
    'a�[31m�b'
    """
    return UNSAFE.sub("\ufffd", text.replace("\r\n", "\n").replace("\r", "\n"))


def to_html(value: object) -> Markup:
    """Return a value as escaped HTML; what is HTML already stays.

    >>> to_html("<b>"), to_html(Markup("<b>"))
    (Markup('&lt;b&gt;'), Markup('<b>'))
    """
    if hasattr(value, "__html__"):
        return Markup(value.__html__())
    return escape(clean(str(value)))
