"""The parts of a section; each knows its template."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from markupsafe import Markup

from palate.reports.table import Table

MOST_LINES = 12
"""Of a drawing: more cannot be told apart."""


def symbol(name: str) -> Markup:
    """Return one of the marks that the page defines at its top."""
    return Markup(
        '<svg class="mark" aria-hidden="true" viewBox="0 0 12 12"><use href="#mark-{}"/></svg>'
    ).format(name)


@dataclass(frozen=True)
class Picture:
    """A drawing with what stands for it: a title, a description and its numbers."""

    template: ClassVar[str] = "picture.html"
    name: str
    """Its id on the page, and its file's name."""
    title: str
    description: str
    table: Table
    drawing: Any
    """A figure of matplotlib's."""
    draw: Callable[[Any], None] | None = None
    """How it is drawn on axes, where `--plot` sets it beside others."""


@dataclass(frozen=True)
class Text:
    """A paragraph, or a heading within a section."""

    template: ClassVar[str] = "text.html"
    text: str
    kind: str = "p"


@dataclass(frozen=True)
class Fixed:
    """A template that holds all of its words."""

    template: str


@dataclass(frozen=True)
class Section:
    """One heading of the page, and what stands under it."""

    name: str
    """Its id."""
    title: str
    parts: Sequence[object]
    lead: str = ""
