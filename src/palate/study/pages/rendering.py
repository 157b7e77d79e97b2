"""Responses: a template with the plan's words, under headers that allow nothing else."""

from __future__ import annotations

import base64
import hashlib
from importlib.resources import files

from fastapi.responses import HTMLResponse, RedirectResponse, Response
from markupsafe import Markup

from palate.html import colours, environment
from palate.study.pages.markdown import rendered
from palate.study.records import DIMENSIONS, HIGHEST, LOWEST, StudyPlan

HEADERS = {
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
}


def fill(text: str, **values: object) -> str:
    """Return words with values in their places.

    >>> fill("{n} of {total} {more}", n=1, total=2)
    '1 of 2 {more}'
    """
    for name, value in values.items():
        text = text.replace(f"{{{name}}}", str(value))
    return text


class PageRenderer:
    """The templates of a study, with its words and style."""

    def __init__(self, plan: StudyPlan) -> None:
        folder = files(__package__) / "templates"
        style = f"{colours()}\n{(folder / 'page.css').read_text(encoding='utf-8').strip()}"
        hashed = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
        self._policy = (
            f"default-src 'none'; style-src 'sha256-{hashed}'; img-src data:; form-action 'self'; "
            "base-uri 'none'; frame-ancestors 'none'"
        )
        scores = range(LOWEST, HIGHEST + 1)
        self._shared = {"t": plan.texts, "plan": plan, "fill": fill, "style": Markup(style)}
        self._shared |= {"rendered": rendered, "dimensions": DIMENSIONS, "scores": scores}
        self._templates = environment(folder)

    def page(self, template: str, status: int = 200, **values: object) -> Response:
        """Return a page; every value that is no HTML is escaped."""
        html = self._templates.get_template(template).render(**self._shared, **values)
        return HTMLResponse(html, status, {**HEADERS, "Content-Security-Policy": self._policy})


def go(address: str) -> Response:
    """Return what leads a browser on by a GET."""
    return RedirectResponse(address, 303, HEADERS)
