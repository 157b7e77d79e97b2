"""Cells in columns of a terminal, each whole, and intervals drawn there on one axis."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import ClassVar

from rich.cells import cell_len, chop_cells

from palate.runs import Gain

GAP = 2
COMMANDS = ("next: ", "look: ")
"""Lines to copy: a path breaks no sooner than the terminal does it."""


@dataclass(frozen=True)
class Column:
    """A column's name, and the name above it that it shares with its neighbours."""

    name: str
    group: str = ""
    left: bool = False
    """True for words, False for numbers."""


def aligned(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], widths: Sequence[int] | None = None
) -> list[str]:
    """Return the lines of a table: shared names, names, a rule, rows; all as wide as the rule.

    >>> two = [Column("name", left=True), Column("own", "accuracy"), Column("none", "accuracy")]
    >>> print("\\n".join(line.rstrip() for line in aligned(two, [["a", "0.5", "0.25"]])))
           accuracy
     name  own  none
     ───────────────
     a     0.5  0.25
    """
    whole = widths is None
    texts = [[column.name, *(row[k] for row in rows)] for k, column in enumerate(columns)]
    widths = [max(map(cell_len, text)) for text in texts] if widths is None else [*widths]
    above, rooms = [], []
    for name, places in _groups(columns):
        room = sum(widths[k] for k in places) + GAP * (len(places) - 1)
        rooms.append(max(room, cell_len(name)) if whole else room)
        widths[places[-1]] += rooms[-1] - room  # room for a long shared name
        above.append(Column(name, left=True))
    names = [column.name for column in columns]
    groups = [column.name for column in above]
    lines = _cells(groups, above, rooms) if any(groups) else []
    lines += _cells(names, columns, widths)
    lines.append("─" * (sum(widths) + GAP * (len(widths) - 1)))
    lines += [line for row in rows for line in _cells(row, columns, widths)]
    return [" " + line for line in lines]


def folded(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], lead: int, width: int
) -> list[str]:
    """Return the lines of a table that is too wide: its cells wrapped, or parts of its columns."""
    texts = [[column.name, *(row[k] for row in rows)] for k, column in enumerate(columns)]
    units: list[list[int]] = []
    for name, places in _groups(columns):
        texts[places[-1]].append(max(name.split() or [""], key=cell_len))
        units += [places] if name else [[k] for k in places]
    lines: list[str] = []
    for places, widths in fitted(texts, units[lead:], width - 1, GAP):
        part = [[row[k] for k in places] for row in rows]
        lines += ([""] if lines else []) + aligned([columns[k] for k in places], part, widths)
    return lines


def fitted(
    texts: Sequence[Sequence[str]],
    units: Sequence[Sequence[int]],
    width: int,
    gap: int,
    stiff: int = 0,
) -> list[tuple[list[int], list[int]]]:
    """Return the places and widths of columns that fit: all of them, or parts, one below another.

    `texts` are each column's. Cells are wrapped between words, the first `stiff` columns' only
    where nothing else helps; then each part holds some `units` of columns, and begins with the
    columns before these. A word that is wider than the room left to it is broken.

    >>> fitted([["name", "a b"], ["own", "0.5"]], [[1]], 9, 2)
    [([0, 1], [4, 3])]
    >>> fitted([["name", "a b"], ["own", "0.5"], ["gain", "+0.5"]], [[1], [2]], 10, 2)
    [([0, 1], [4, 3]), ([0, 2], [4, 4])]
    """
    natural = [max(map(cell_len, column)) for column in texts]
    least = [max(map(longest_word, column)) for column in texts]
    every = list(range(len(texts)))
    room = width - gap * (len(texts) - 1)
    for firm in (natural[:stiff] + least[stiff:], least):
        if sum(firm) <= room:
            return [(every, _narrowed(natural, firm, room))]
    lead = units[0][0] if units else len(texts)
    share = max(1, width // 2 // lead)
    head = _narrowed(natural[:lead], [min(n, share) for n in least[:lead]], share * lead)
    rest = max(1, width - sum(head) - gap * lead)

    def fits(places: Sequence[int]) -> bool:
        return sum(least[k] + gap for k in places) - gap <= rest

    parts: list[list[int]] = [[]]
    for unit in units:
        for some in [unit] if fits(unit) else [[k] for k in unit]:
            if parts[-1] and not fits([*parts[-1], *some]):
                parts.append([])
            parts[-1] += some
    shown = []
    for part in parts:
        room = rest - gap * (len(part) - 1)
        narrow = _narrowed([natural[k] for k in part], [min(least[k], rest) for k in part], room)
        shown.append(([*every[:lead], *part], [*head, *narrow]))
    return shown


def _narrowed(natural: Sequence[int], least: Sequence[int], room: int) -> list[int]:
    # The widest column that still can gives way.
    widths = list(natural)
    while sum(widths) > room:
        able = [k for k, size in enumerate(widths) if size > least[k]]
        if not able:
            break
        widths[max(able, key=widths.__getitem__)] -= 1
    return widths


def longest_word(text: str) -> int:
    """Return the columns of what is never broken: a word, or an interval."""
    return max((cell_len(word.lstrip(" ")) for word in _words(text)), default=0)


def wrapped(text: str, width: int) -> list[str]:
    """Return a sentence in lines that fit; an interval, and words of a command, stay in one piece.

    >>> wrapped("It adds +0.281 [0.169, 0.393].", 20)
    ['It adds +0.281', '[0.169, 0.393].']
    >>> wrapped("a classifier", 7), wrapped("next: ./a/long/path", 7)
    (['a', 'classif', 'ier'], ['next:', './a/long/path'])
    """
    lines, line = [], ""
    for word in _words(text):
        if line and cell_len(line + word) > width:
            lines.append(line)
            line = ""
        line = line + word if line else word.lstrip(" ")
        if cell_len(line) > width and not text.startswith(COMMANDS):
            *pieces, line = chop_cells(line, width)
            lines += pieces
    return [each.replace("\u00a0", " ") for each in (*lines, line) if each]


def _words(text: str) -> list[str]:
    whole = re.sub(r"\[[^\]]*\]", lambda match: match.group().replace(" ", "\u00a0"), text)
    return re.findall(r" *[^ ]+", re.sub(r"[\t\n\r]", " ", whole))


def _groups(columns: Sequence[Column]) -> Iterator[tuple[str, list[int]]]:
    for name, places in groupby(range(len(columns)), key=lambda k: columns[k].group):
        yield name, list(places)


def _cells(cells: Sequence[str], columns: Sequence[Column], widths: Sequence[int]) -> list[str]:
    texts = [
        [cell] if cell_len(cell) <= width else wrapped(cell, width)
        for cell, width in zip(cells, widths, strict=True)
    ]
    lines = []
    for k in range(max(map(len, texts))):
        line = []
        for text, column, width in zip(texts, columns, widths, strict=True):
            cell = text[k] if k < len(text) else ""
            space = " " * (width - cell_len(cell))
            line.append(cell + space if column.left else space + cell)
        lines.append((" " * GAP).join(line))
    return lines


@dataclass(frozen=True)
class Axis:
    """A line of characters from `low` to `high`; 0 lies on it."""

    NARROWEST: ClassVar[int] = 11
    WIDEST: ClassVar[int] = 19

    low: float
    high: float
    width: int = WIDEST

    @classmethod
    def over(cls, gains: Sequence[Gain | None]) -> Axis | None:
        """Return the axis that holds these gains, in tenths; None where all are 0 or missing."""
        ends = [end for gain in gains if gain for end in (gain.value, gain.low, gain.high)]
        known = [end for end in ends if end is not None]
        if not any(known):
            return None
        low, high = (math.floor(min(0.0, *known) * 10) / 10, math.ceil(max(0.0, *known) * 10) / 10)
        return cls(low, high)

    def header(self) -> str:
        """Return the numbers of its ends and 0, each where it lies.

        >>> Axis(0.0, 0.5, 15).header()
        '0           0.5'
        """
        line = [" "] * self.width
        for value in (0.0, self.high, self.low):
            text = f"{value:g}".replace("-", "−")
            start = min(max(0, self._at(value) - len(text) // 2), self.width - len(text))
            place = slice(start, start + len(text))
            if not "".join(line[max(0, start - 1) : start + len(text) + 1]).strip():
                line[place] = text
        return "".join(line).rstrip()

    def drawn(self, gain: Gain | None) -> str:
        """Return a gain with its interval; without one, the point alone.

        >>> interval = {"low": 0.1, "value": 0.2, "high": 0.4}
        >>> about = {"benchmark": "b", "scorer": "s", "context": "c", "against": "none"}
        >>> Axis(0.0, 0.5, 11).drawn(Gain(kind="gain", **about, **interval))
        '┊ ├─●───┤'
        """
        line = [" "] * self.width
        line[self._at(0.0)] = "┊"
        if gain is None or gain.value is None:
            return "".join(line).rstrip()
        if gain.low is not None and gain.high is not None and gain.low < gain.high:
            first, last = self._at(gain.low), self._at(gain.high)
            line[first : last + 1] = ["─"] * (last + 1 - first)
            line[first], line[last] = "├", "┤"
        line[self._at(gain.value)] = "●"
        return "".join(line).rstrip()

    def _at(self, value: float) -> int:
        return round((value - self.low) / (self.high - self.low) * (self.width - 1))
