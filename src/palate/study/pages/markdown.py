"""Markdown of data as HTML in which nothing is loaded, linked or styled."""

from __future__ import annotations

from functools import cache

from markdown_it import MarkdownIt
from markdown_it.rules_core import StateCore
from markupsafe import Markup

from palate.html import printable

OFF = ("html_inline", "html_block", "image", "autolink", "link", "reference")


def rendered(text: str, level: str = "") -> Markup:
    r"""Return a text as HTML; headings of data are none of the page's, the consent's have a level.

    >>> rendered("# Tea\n[so](javascript:x) <b>")
    Markup('<p class="heading">Tea</p>\n<p>[so](javascript:x) &lt;b&gt;</p>\n')
    """
    # Once more at the end: an entity such as `&#8238;` is a control character only then.
    return Markup(printable(_parser().render(printable(text), {"level": level})))


@cache
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False, "breaks": True})
    parser.enable(["table", "strikethrough"]).disable(OFF)
    parser.core.ruler.push("plain", _plain)
    return parser


def _plain(state: StateCore) -> None:
    """Lower headings, and make of tables what may scroll and needs no style."""
    for k, token in enumerate(state.tokens):
        if token.type.startswith("heading"):
            token.tag = state.env["level"] or "p"
            token.attrs = {"class": "heading"} if token.nesting == 1 else {}
        elif token.type.startswith(("th_", "td_")):
            empty = not state.tokens[k + token.nesting].content.strip()
            token.tag, token.attrs = "td" if empty else token.tag, {}
        elif token.type == "table_open":
            token.attrs = {"tabindex": 0}
