"""Text as HTML: what would act, hide or turn the line around is no text."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup, escape

from palate.reports.printable import printable

TEMPLATES = files(__package__) / "page" / "templates"


def filled(template: str, **values: object) -> Markup:
    """Return a template of the page's with values; every text is escaped where it is put in."""
    return Markup(_environment().get_template(template).render(values))


def to_html(value: object) -> Markup:
    """Return a value as escaped HTML; what is HTML already stays.

    >>> to_html("<b>"), to_html(Markup("<b>"))
    (Markup('&lt;b&gt;'), Markup('<b>'))
    """
    if hasattr(value, "__html__"):
        return Markup(value.__html__())
    return escape(printable(str(value)))


@cache
def _environment() -> Environment:
    return Environment(
        loader=FunctionLoader(lambda name: (TEMPLATES / name).read_text(encoding="utf-8").strip()),
        undefined=StrictUndefined,
        autoescape=True,
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _finalize(value: object) -> object:
    return value if value is None or isinstance(value, StrictUndefined) else to_html(value)
