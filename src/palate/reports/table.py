"""One table, four ways to print it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from importlib.resources import files
from itertools import groupby, pairwise
from typing import Literal, TypeVar

from jinja2 import Environment
from markupsafe import Markup
from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.table import Table as RichTable
from rich.text import Text

from palate.data import Account
from palate.html import environment, printable, to_html
from palate.reports.aligned import COMMANDS, fitted, wrapped
from palate.reports.numbers import Number


class Form(StrEnum):
    """How results are printed."""

    TABLE = "table"
    MARKDOWN = "markdown"
    LATEX = "latex"
    JSON = "json"


WIDTH = 100
"""Columns of a terminal: no screen is wider, and a table's sentences are wrapped there."""
GAP, EDGE = 3, 2
"""Columns between two of a table, and at both its ends."""
LATEX = {letter: f"\\{letter}" for letter in "&%_#${}"} | {
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "\\": r"\textbackslash{}",
    "–": "--",
    "−": "$-$",
    "±": r"$\pm$",
    "½": r"$\frac{1}{2}$",
    "≥": r"$\geq$",
    "×": r"$\times$",
    "†": r"$\dagger$",
    "‡": r"$\ddagger$",
    "\u00a0": "~",
    "·": r"$\cdot$",
    "√": r"$\surd$",
    "≈": r"$\approx$",
    "≤": r"$\leq$",
    "<": r"$<$",
    ">": r"$>$",
    "ⁿ": r"$^n$",
    "α": r"$\alpha$",
    "ρ": r"$\rho$",
    "τ": r"$\tau$",
}


T = TypeVar("T")


@dataclass(frozen=True)
class Table:
    """Cells as text, numbers as `Number`, notes below; without columns a line: title and notes."""

    title: str
    columns: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    notes: Sequence[str] = ()
    left: int = 1
    """How many leading columns are words rather than numbers."""
    breaks: frozenset[int] = field(default_factory=frozenset)
    """Rows after which a line is drawn."""
    prose: bool = False
    """True where all columns but the first hold sentences, which a narrow terminal wraps."""
    heads: Sequence[str] = ()
    """What columns share, above them in LaTeX; their names begin with it, before a comma."""
    width: int | None = None
    """Where its title and notes are wrapped, at the latest."""

    @classmethod
    def of(
        cls,
        title: str,
        items: Iterable[T],
        columns: Mapping[str, Callable[[T], str]],
        notes: Iterable[str] = (),
        left: int = 1,
        *,
        parted: int = 0,
        width: int | None = None,
    ) -> Table:
        """Return a table with a row for each item and, by column, what makes its cell.

        A line is drawn where one of the first `parted` cells changes.

        >>> Table.of("teas", ["sencha", "oolong"], {"tea": str, "first": min}, parted=1).breaks
        frozenset({0})
        """
        rows = [[cell(item) for cell in columns.values()] for item in items]
        breaks = breaks_between(row[:parted] for row in rows)
        return cls(title, list(columns), rows, list(notes), left, breaks, width=width)

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> Iterator[Text | RichTable]:
        width = min(self.width or options.max_width, options.max_width)

        def lines(text: str, style: str) -> Iterator[Text]:
            for line in wrapped(printable(text), width):
                yield Text(line, style, no_wrap=True, overflow="ignore")

        if not self.columns:
            yield from lines(self._line(), "")
            return
        yield from lines(self.title, "bold")
        yield from self._parts(options.max_width - EDGE)
        for note in self.notes:
            yield from lines(note, "dim")

    def _parts(self, width: int) -> Iterator[RichTable]:
        # Columns are wrapped, or stand in parts under each other, where a terminal is too narrow.
        words = min(1, self.left) if self.prose else self.left
        texts = [[*map(printable, [name, *cells])] for name, cells in self._by_column()]
        lead = self.left if 0 < self.left < len(texts) else 1
        units = [[k] for k in range(lead, len(texts))]
        for places, widths in fitted(texts, units, width, GAP, words):
            part = RichTable(box=box.SIMPLE_HEAD, pad_edge=False)
            columns = [
                [Text("\n".join(wrapped(text, width))) for text in texts[k]]
                for k, width in zip(places, widths, strict=True)
            ]
            for k, (name, *_) in zip(places, columns, strict=True):
                justify: Literal["left", "right"] = "left" if k < self.left else "right"
                part.add_column(name, justify=justify, no_wrap=True, overflow="fold")
            for n, row in enumerate(zip(*(below for _, *below in columns), strict=True)):
                part.add_row(*row, end_section=n in self.breaks)
            yield part

    def _by_column(self) -> Iterator[tuple[str, list[str]]]:
        for k, name in enumerate(self.columns):
            yield name, [row[k] for row in self.rows]

    def text(self, width: int | None = None) -> str:
        """Return it as plain text, as wide as it needs or no wider than `width`."""
        return render([self], Form.TABLE, width=width)

    def columns_of_values(self) -> dict[str, list[object]]:
        """Return the cells by column: numbers as such, intervals in columns `low` and `high`."""
        values: dict[str, list[object]] = {}
        for title, cells in self._by_column():
            numbers = [cell for cell in cells if isinstance(cell, Number)]
            if len(numbers) < len(cells) or not cells:
                values[title] = list(cells)
                continue
            name = title.removesuffix(" [95 %]")
            values[name] = [number.value for number in numbers]
            if any(number.has_interval for number in numbers):
                values[f"{name} low"] = [number.low for number in numbers]
                values[f"{name} high"] = [number.high for number in numbers]
        return values

    def markdown(self) -> str:
        """Return it as GitHub's Markdown."""
        if not self.columns:
            return f"{self._line()}\n"
        align = ["---" if k < self.left else "---:" for k in range(len(self.columns))]
        lines = [self.columns, align, *self.rows]
        cells = ([cell.replace("|", r"\|") for cell in line] for line in lines)
        body = "\n".join(f"| {' | '.join(line)} |" for line in cells)
        notes = "".join(f"\n\n{note}" for note in self._of_a_document())
        return f"**{self.title}**\n\n{body}{notes}\n"

    def latex(self) -> str:
        """Return it as a booktabs table."""
        if not self.columns:
            return f"{_latex(self._line())}\n"
        align = "".join("l" if k < self.left else "r" for k in range(len(self.columns)))
        lines = [r"\begin{table}", r"\centering", rf"\begin{{tabular}}{{{align}}}", r"\toprule"]
        names = list(self.columns)
        if any(self.heads):
            names = [n.removeprefix(f"{h}, ") for n, h in zip(names, self.heads, strict=True)]
            lines += self._latex_heads()
        lines += [" & ".join(map(_latex, names)) + r" \\", r"\midrule"]
        for k, row in enumerate(self.rows):
            lines.append(" & ".join(map(_latex, row)) + r" \\")
            if k in self.breaks:
                lines.append(r"\midrule")
        caption = _latex(" ".join([f"{self.title}.", *self._of_a_document()]))
        name = self.title.lower().partition(" · ")[0]
        label = rf"\label{{tab:{'-'.join(re.findall('[a-z0-9]+', name))}}}"
        lines += [r"\bottomrule", r"\end{tabular}", rf"\caption{{{caption}}}", label]
        return "\n".join([*lines, r"\end{table}", ""])

    def _of_a_document(self) -> list[str]:
        # A hint of what to type belongs to a screen.
        return [note for note in self.notes if not note.startswith(COMMANDS)]

    def _latex_heads(self) -> list[str]:
        cells, rules, first = [], [], 1
        for head, columns in groupby(self.heads):
            n = len(list(columns))
            cells += [rf"\multicolumn{{{n}}}{{c}}{{{_latex(head)}}}"] if head else [""] * n
            rules += [rf"\cmidrule(lr){{{first}-{first + n - 1}}}"] if head else []
            first += n
        return [" & ".join(cells) + r" \\", " ".join(rules)]

    def html(self) -> Markup:
        """Return it as an HTML table of escaped text; a column of numbers sorts by their values."""
        columns = []
        for k, (name, cells) in enumerate(self._by_column()):
            numeric = bool(cells) and all(isinstance(cell, Number) for cell in cells)
            drawn = bool(cells) and all(isinstance(cell, Markup) for cell in cells)
            right = k >= self.left and not drawn
            columns.append((name, to_html(name).striptags(), right, numeric))
        return filled("table.html", table=self, line=self._line(), columns=columns)

    def _line(self) -> str:
        return " ".join([f"{self.title}:", *self.notes])


def breaks_between(names: Iterable[object]) -> frozenset[int]:
    """Return the rows after which another name begins: the `breaks` of a table."""
    return frozenset(k for k, (name, after) in enumerate(pairwise(names)) if name != after)


def stacked(tables: Sequence[Table]) -> Group:
    """Return tables for a terminal, an empty line between any two."""
    parts: list[RenderableType] = []
    for table in tables:
        parts.append(table)
        # A table without notes ends with an empty line of its own.
        if table is not tables[-1] and (table.notes or not table.columns):
            parts.append(Text(""))
    return Group(*parts)


def render(tables: Sequence[Table], form: Form, *, width: int | None = None) -> str:
    """Return tables as text in one form; for `table`, `width` None is as wide as it needs."""
    if form is Form.MARKDOWN:
        return "\n".join(table.markdown() for table in tables)
    if form is Form.LATEX:
        return "\n".join(table.latex() for table in tables)
    console = Console(width=width or 220, color_system=None, emoji=False)
    with console.capture() as captured:
        console.print(stacked(tables), crop=False)
    text = captured.get().replace("\u00a0", " ")
    return "\n".join(line.rstrip() for line in text.splitlines()) + "\n"


def _latex(text: str) -> str:
    return "".join(LATEX.get(letter, letter) for letter in text)


def account_table(name: str, account: Account) -> Table:
    """Return what was made of the columns, rows and people of some data."""
    columns = ["of the data", "what palate made of it"]
    return Table(f"what was read of {name}", columns, [*account.facts().items()], left=2)


def filled(template: str, **values: object) -> Markup:
    """Return a template of the page's with values; every text is escaped where it is put in."""
    return Markup(_environment().get_template(template).render(values))


@cache
def _environment() -> Environment:
    return environment(files(__package__) / "templates")
