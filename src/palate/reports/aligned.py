"""Cells in columns of a terminal, each whole."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from rich.cells import cell_len

GAP = 2


@dataclass(frozen=True)
class Column:
    """A column's name, and the name above it that it shares with its neighbours."""

    name: str
    group: str = ""
    left: bool = False
    """True for words, False for numbers."""


def aligned(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table: shared names, names, a rule, rows; all as wide as the rule.

    >>> two = [Column("name", left=True), Column("own", "accuracy"), Column("none", "accuracy")]
    >>> print("\\n".join(line.rstrip() for line in aligned(two, [["a", "0.5", "0.25"]])))
           accuracy
     name  own  none
     ───────────────
     a     0.5  0.25
    """
    widths = [
        max(cell_len(text) for text in (column.name, *(row[k] for row in rows)))
        for k, column in enumerate(columns)
    ]
    above = []
    for name, group in groupby(range(len(columns)), key=lambda k: columns[k].group):
        places = list(group)
        room = sum(widths[k] for k in places) + GAP * (len(places) - 1)
        widths[places[-1]] += max(0, cell_len(name) - room)  # room for a long shared name
        above.append(_padded(name, max(room, cell_len(name)), left=True))
    lines = [above] if any(column.group for column in columns) else []
    lines.append(_cells([column.name for column in columns], columns, widths))
    lines.append(["─" * (sum(widths) + GAP * (len(widths) - 1))])
    lines += [_cells(row, columns, widths) for row in rows]
    return [" " + (" " * GAP).join(line) for line in lines]


def wrapped(text: str, width: int) -> list[str]:
    """Return a sentence in lines that fit; an interval stays in one piece.

    >>> wrapped("It adds +0.281 [0.169, 0.393].", 20)
    ['It adds +0.281', '[0.169, 0.393].']
    """
    whole = re.sub(r"\[[^\]]*\]", lambda match: match.group().replace(" ", "\u00a0"), text)
    lines = textwrap.wrap(whole, width, break_on_hyphens=False, break_long_words=False)
    return [line.replace("\u00a0", " ") for line in lines]


def _cells(cells: Sequence[str], columns: Sequence[Column], widths: Sequence[int]) -> list[str]:
    return [
        _padded(cell, width, left=column.left)
        for cell, column, width in zip(cells, columns, widths, strict=True)
    ]


def _padded(text: str, width: int, *, left: bool) -> str:
    space = " " * (width - cell_len(text))
    return text + space if left else space + text
