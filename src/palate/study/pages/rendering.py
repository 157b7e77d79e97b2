"""Responses: a template with the plan's words, under headers that allow nothing else."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from functools import cached_property
from importlib.resources import files

from fastapi.responses import HTMLResponse, RedirectResponse, Response
from markupsafe import Markup

from palate.html import colours, environment

HEADERS = {
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
}
NOTHING: Mapping[str, object] = {
    **dict.fromkeys(("problems", "values", "hidden"), {}),
    **dict.fromkeys(("progress", "notice", "stop", "wide", "back", "to_open", "explanation")),
    **dict.fromkeys(("arrival", "confirm", "links", "posts", "ratings")),
}
"""What a template may lack."""


def fill(text: str, **values: object) -> str:
    """Return words with values in their places.

    >>> fill("{n} of {total} {more}", n=1, total=2)
    '1 of 2 {more}'
    """
    for name, value in values.items():
        text = text.replace(f"{{{name}}}", str(value))
    return text


class PageRenderer:
    """The templates of a study, with its words."""

    def __init__(self, words: Mapping[str, str]) -> None:
        self.words = words
        folder = files(__package__) / "templates"
        self._templates = environment(folder)
        self._style = f"{colours()}\n{(folder / 'page.css').read_text(encoding='utf-8').strip()}"

    def page(self, template: str, title: str, status: int = 200, **values: object) -> Response:
        """Return a page; every value that is no HTML is escaped."""
        given = {**NOTHING, "t": self.words, "fill": fill, "style": Markup(self._style), **values}
        html = self._templates.get_template(template).render(title=title, **given)
        return HTMLResponse(html, status, {**HEADERS, "Content-Security-Policy": self._policy})

    def note(self, name: str, status: int = 200, **values: object) -> Response:
        """Return a page that says one thing."""
        text = self.words[name]
        return self.page("note.html", self.words[f"{name}_title"], status, text=text, **values)

    def go(self, address: str) -> Response:
        """Return what leads a browser on by a GET."""
        return RedirectResponse(address, 303, HEADERS)

    @cached_property
    def _policy(self) -> str:
        hashed = base64.b64encode(hashlib.sha256(self._style.encode()).digest()).decode()
        return (
            f"default-src 'none'; style-src 'sha256-{hashed}'; img-src data:; form-action 'self'; "
            "base-uri 'none'; frame-ancestors 'none'"
        )
