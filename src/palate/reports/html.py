"""The page's templates."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from jinja2 import Environment
from markupsafe import Markup

from palate.html import environment


def filled(template: str, **values: object) -> Markup:
    """Return a template of the page's with values; every text is escaped where it is put in."""
    return Markup(_environment().get_template(template).render(values))


@cache
def _environment() -> Environment:
    return environment(files(__package__) / "page" / "templates")
