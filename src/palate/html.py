"""Templates whose every text is escaped; what would act, hide or turn the line around is none."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup, escape

UNSAFE = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
    "\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]"
)
"""Control characters, controls of direction, surrogates, and what no document may hold."""


def to_html(value: object) -> Markup:
    """Return a value as escaped HTML; what is HTML already stays.

    >>> to_html("<b>"), to_html(Markup("<b>"))
    (Markup('&lt;b&gt;'), Markup('<b>'))
    """
    if hasattr(value, "__html__"):
        return Markup(value.__html__())
    return escape(printable(str(value)))


def environment(folder: Traversable) -> Environment:
    """Return the templates of a folder; a value without a name is an error."""
    return Environment(
        loader=FunctionLoader(lambda name: (folder / name).read_text(encoding="utf-8").strip()),
        undefined=StrictUndefined,
        autoescape=True,
        finalize=lambda it: it if isinstance(it, StrictUndefined | None) else to_html(it),
        trim_blocks=True,
        lstrip_blocks=True,
    )


@cache
def colours() -> str:
    """Return the style sheet of colours and fonts, light and dark."""
    return (files(__package__) / "html.css").read_text(encoding="utf-8").strip()


def printable(text: str) -> str:
    """Return a text that is safe in a terminal, and in HTML, SVG and PDF once it is escaped.

    >>> printable("a\\x1b[31m\\u202eb")
    'a�[31m�b'
    """
    return UNSAFE.sub("\ufffd", text.replace("\r\n", "\n").replace("\r", "\n"))
