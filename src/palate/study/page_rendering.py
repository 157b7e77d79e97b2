"""Responses: templates and Markdown as HTML, under headers that allow nothing else."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from functools import cache
from html import unescape
from importlib.resources import files
from typing import Any

from fastapi.responses import HTMLResponse, RedirectResponse, Response
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.rules_core import StateCore
from markdown_it.token import Token
from markupsafe import Markup, escape

from palate.html import colours, environment, printable
from palate.study.records import DIMENSIONS, HIGHEST, LOWEST, StudyPlan, read_page_texts

HEADERS = {
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
}
OFF = ("html_inline", "html_block", "image", "autolink", "link", "reference")


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
        words = {**read_page_texts().texts, **plan.texts}  # a plan may be older than some words
        self._shared = {"t": words, "plan": plan, "fill": fill, "style": Markup(style)}
        self._shared |= {"rendered": rendered, "dimensions": DIMENSIONS, "scores": scores}
        self._templates = environment(folder)

    def page(self, template: str, status: int = 200, **values: object) -> Response:
        """Return a page; every value that is no HTML is escaped."""
        html = self._templates.get_template(template).render(**self._shared, **values)
        return HTMLResponse(html, status, {**HEADERS, "Content-Security-Policy": self._policy})


def go(address: str) -> Response:
    """Return what leads a browser on by a GET."""
    return RedirectResponse(address, 303, HEADERS)


def rendered(text: str, level: str = "") -> Markup:
    r"""Return a text as HTML; headings of data are none of the page's, the consent's have a level.

    Where Markdown would drop a part of it, as a cell beyond a table's header, it stands as written.

    >>> rendered("# Tea\n[so](javascript:x) <b>")
    Markup('<p class="heading">Tea</p>\n<p>[so](javascript:x) &lt;b&gt;</p>\n')
    """
    text = printable(text)
    for tables in (True, False):
        parser, env = _parser(tables), {"level": level}
        tokens = parser.parse(text, env)
        if _is_whole(text.split("\n"), tokens):
            # Once more: an entity such as `&#8238;` is a control character only now.
            return Markup(printable(parser.renderer.render(tokens, parser.options, env)))
    return Markup('<p class="plain">{}</p>\n').format(text)


@cache
def _parser(tables: bool) -> MarkdownIt:
    options = {"html": False, "breaks": True, "maxNesting": 100}
    parser = MarkdownIt("commonmark", options).disable(OFF)
    parser.enable(["strikethrough", *["table"] * tables])
    parser.core.ruler.push("plain", _plain)
    parser.add_render_rule("fence", _fence)
    return parser


def _plain(state: StateCore) -> None:
    """Lower headings, number lists as written, and make of tables what scrolls without style."""
    for k, token in enumerate(state.tokens):
        if token.type.startswith("heading"):
            token.tag = state.env["level"] or "p"
            token.attrs = {"class": "heading"} if token.nesting == 1 else {}
        elif token.type.startswith(("th_", "td_")):
            empty = not state.tokens[k + token.nesting].content.strip()
            token.tag, token.attrs = "td" if empty else token.tag, {}
        elif token.type == "table_open":
            token.attrs = {"tabindex": 0}
        elif token.type == "list_item_open" and token.info:
            token.attrs = {"value": int(token.info)}  # a countdown is no list that begins with 3


def _fence(renderer: RendererHTML, tokens: Sequence[Token], k: int, *more: Any) -> str:
    """Return a block of code under what its first line says of it, such as the language."""
    info = tokens[k].info.strip()
    label = f'<p class="role">{escape(info)}</p>\n' if info else ""
    return label + RendererHTML.fence(renderer, tokens, k, *more)


def _is_whole(lines: Sequence[str], tokens: Sequence[Token]) -> bool:
    """Tell whether all that is written is shown: Markdown drops cells and what is nested deep."""
    words, columns = [], 0
    for token in tokens:
        words += [token.info] * (token.type in ("fence", "list_item_open"))
        words += [part.content for part in token.children or [token]]
        columns = 0 if token.type == "table_open" else columns + (token.type == "th_open")
        if token.type == "tr_open" and columns and token.map:
            row = lines[token.map[0]].lstrip(" \t>").removeprefix("|")
            if any(cell.strip() for cell in re.split(r"(?<!\\)\|", row)[columns:]):
                return False
    return _characters(" ".join(words)) == _characters("\n".join(lines))


def _characters(text: str) -> str:
    """Return what is never markup: letters, digits, and all beyond ASCII."""
    return "".join(c for c in unescape(text) if c.isalnum() or not (c.isascii() or c.isspace()))
