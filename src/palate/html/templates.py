"""Templates whose every text is escaped; what would act, hide or turn the line around is none."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup, escape

from palate.html.printable import printable


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
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
    )


@cache
def colours() -> str:
    """Return the style sheet of colours and fonts, light and dark."""
    return (files(__package__) / "colours.css").read_text(encoding="utf-8").strip()


def _finalize(value: object) -> object:
    return value if value is None or isinstance(value, StrictUndefined) else to_html(value)
