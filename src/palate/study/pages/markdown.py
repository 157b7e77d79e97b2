"""Markdown of data as HTML in which nothing is loaded, linked or styled."""

from __future__ import annotations

from functools import cache
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.rules_core import StateCore
from markupsafe import Markup

from palate.html import printable

RAW = ("html_inline", "html_block", "image", "autolink")
LINKS = ("link", "reference")


def rendered(text: str) -> Markup:
    r"""Return a text of the data as HTML: no link, no image, no heading of the page.

    >>> rendered("# Tea\n[so](javascript:x) <b>")
    Markup('<p class="heading">Tea</p>\n<p>[so](javascript:x) &lt;b&gt;</p>\n')
    """
    return _html(_parser(), text)


def rendered_consent(text: str) -> Markup:
    """Return the consent as HTML, in which links work and every heading is of the second level.

    >>> rendered_consent("### [Who](https://example.org) asks")
    Markup('<h2><a href="https://example.org">Who</a> asks</h2>\n')
    """
    return _html(_parser(links=True), text)


def _html(parser: MarkdownIt, text: str) -> Markup:
    # Once more at the end: an entity such as `&#8238;` is a control character only then.
    return Markup(printable(parser.render(printable(text))))


@cache
def _parser(links: bool = False) -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False, "breaks": True})
    parser.enable(["table", "strikethrough"]).disable([*RAW, *(() if links else LINKS)])
    parser.core.ruler.push("plain", _titled if links else _plain)
    return parser


def _titled(state: StateCore) -> None:
    for token in state.tokens:
        if token.type.startswith("heading"):
            token.tag = "h2"


def _plain(state: StateCore) -> None:
    """Make headings paragraphs, and of tables what may scroll and needs no style."""
    for k, token in enumerate(state.tokens):
        if token.type.startswith("heading"):
            token.tag = "p"
            token.attrs = _attributes("class", "heading") if token.nesting == 1 else {}
        elif token.type.startswith(("th_", "td_")):
            inside = state.tokens[k + token.nesting]
            token.tag = token.tag if inside.content.strip() else "td"
            token.attrs = {}
        elif token.type == "table_open":
            token.attrs = _attributes("tabindex", "0")


def _attributes(name: str, value: str) -> dict[str, Any]:
    return {name: value}
