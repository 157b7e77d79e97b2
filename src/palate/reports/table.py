"""One table, four ways to print it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise
from typing import Literal, NamedTuple

from markupsafe import Markup
from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.table import Table as RichTable
from rich.text import Text

from palate.html import printable, to_html
from palate.reports.aligned import wrapped
from palate.reports.html import filled
from palate.reports.numbers import Number


class Form(StrEnum):
    """How results are printed."""

    TABLE = "table"
    MARKDOWN = "markdown"
    LATEX = "latex"
    JSON = "json"


LATEX = {
    "&": r"\&",
    "%": r"\%",
    "_": r"\_",
    "#": r"\#",
    "$": r"\$",
    "{": r"\{",
    "}": r"\}",
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
}


@dataclass(frozen=True)
class Table:
    """Cells as text, numbers as `Number`; `notes` stand below.

    Without columns it is a line: title and notes.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()
    left: int = 1
    """How many leading columns are words rather than numbers."""
    breaks: frozenset[int] = field(default_factory=frozenset)
    """Rows after which a line is drawn."""
    prose: bool = False
    """True where all columns but the first hold sentences, which a narrow terminal wraps."""
    width: int | None = None
    """Where its title and notes are wrapped, at the latest."""

    def rich(self) -> RenderableType:
        """Return it for a terminal."""
        if not self.columns:
            return self._wrapped(self._line())
        table = RichTable(box=box.SIMPLE_HEAD, pad_edge=False)
        for k, name in enumerate(self.columns):
            justify: Literal["left", "right"] = "left" if k < self.left else "right"
            whole = k < self.left and not (self.prose and k)
            table.add_column(Text(_whole(name)), justify=justify, no_wrap=whole, overflow="fold")
        for k, row in enumerate(self.rows):
            table.add_row(*(Text(_whole(cell)) for cell in row), end_section=k in self.breaks)
        notes = (self._wrapped(note, "dim") for note in self.notes)
        return Group(self._wrapped(self.title, "bold"), table, *notes)

    def _wrapped(self, text: str, style: str = "") -> RenderableType:
        whole = printable(text)
        return Text(whole, style) if self.width is None else _Wrapped(whole, style, self.width)

    def text(self) -> str:
        """Return it as plain text, as wide as it needs."""
        return render([self], Form.TABLE)

    def columns_of_values(self) -> dict[str, list[object]]:
        """Return the cells by column: numbers as such, intervals in columns `low` and `high`."""
        values: dict[str, list[object]] = {}
        for k, title in enumerate(self.columns):
            cells = [row[k] for row in self.rows]
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
        notes = "".join(f"\n\n{note}" for note in self.notes)
        return f"**{self.title}**\n\n{body}{notes}\n"

    def latex(self) -> str:
        """Return it as a booktabs table."""
        if not self.columns:
            return f"{_latex(self._line())}\n"
        align = "".join("l" if k < self.left else "r" for k in range(len(self.columns)))
        lines = [r"\begin{table}", r"\centering", rf"\begin{{tabular}}{{{align}}}", r"\toprule"]
        lines += [" & ".join(map(_latex, self.columns)) + r" \\", r"\midrule"]
        for k, row in enumerate(self.rows):
            lines.append(" & ".join(map(_latex, row)) + r" \\")
            if k in self.breaks:
                lines.append(r"\midrule")
        caption = _latex(" ".join([f"{self.title}.", *self.notes]))
        lines += [r"\bottomrule", r"\end{tabular}", rf"\caption{{{caption}}}", r"\end{table}", ""]
        return "\n".join(lines)

    def html(self) -> Markup:
        """Return it as an HTML table of escaped text; a column of numbers sorts by their values."""
        columns = []
        for k, name in enumerate(self.columns):
            cells = [row[k] for row in self.rows]
            numeric = bool(cells) and all(isinstance(cell, Number) for cell in cells)
            drawn = bool(cells) and all(isinstance(cell, Markup) for cell in cells)
            right = k >= self.left and not drawn
            columns.append((name, to_html(name).striptags(), right, numeric))
        return filled("table.html", table=self, line=self._line(), columns=columns)

    def _line(self) -> str:
        return " ".join([f"{self.title}:", *self.notes])


class _Wrapped(NamedTuple):
    """A sentence on lines of a width, or of a narrower terminal; an interval stays whole."""

    text: str
    style: str
    width: int

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        for line in wrapped(self.text, min(self.width, options.max_width)):
            yield Text(line, self.style, no_wrap=True, overflow="ignore")


def breaks_between(names: Iterable[str]) -> frozenset[int]:
    """Return the rows after which another name begins: the `breaks` of a table.

    >>> breaks_between(["judge", "judge", "random"])
    frozenset({1})
    """
    return frozenset(k for k, (name, after) in enumerate(pairwise(names)) if name != after)


def stacked(tables: Sequence[Table]) -> Group:
    """Return tables for a terminal, an empty line between any two."""
    parts: list[RenderableType] = []
    for table in tables:
        parts.append(table.rich())
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


def _whole(cell: str) -> str:
    # On a narrow terminal a cell breaks before its interval, never inside.
    return re.sub(
        r"\[[^\]]*\]| [su]$", lambda match: match.group().replace(" ", "\u00a0"), printable(cell)
    )


def _latex(text: str) -> str:
    return re.sub(r"[&%_#${}~^\\–−±½≥×†‡]", lambda match: LATEX[match.group()], text)
