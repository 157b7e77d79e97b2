"""A layout: how rows of a public form become rows of the contract, and what is said of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from palate.data.layouts.conversations import Exchange
from palate.data.layouts.known_columns import Peek, Row
from palate.data.layouts.votes import Side
from palate.errors import DataError, UsageError

Numbered = tuple[int, Any]
"""(row number, row or its `DataError`)."""
ToRows = Callable[[int, Any], Iterator[dict[str, Any]]]
"""(row number, row) → rows of the contract; raises `DataError`."""
PAIRS = ("all", "best-worst", "adjacent")


@dataclass(frozen=True)
class LayoutOptions:
    """How the rows of a file are to be understood, as given on the command line."""

    name: str | None = None
    """A layout by name; `none` reads the contract alone."""
    pairs: str = "all"
    """Which pairs are made of three responses or more: all, best-worst, adjacent."""
    votes: Mapping[str, Side] = field(default_factory=dict)
    """What values of a vote mean."""
    posts: Path | None = None
    """A second file: what users wrote."""

    def __post_init__(self) -> None:
        """Raise `UsageError` for pairs that palate does not make."""
        if self.pairs not in PAIRS:
            raise UsageError(f"--pairs {self.pairs}: expected one of {', '.join(PAIRS)}")


@dataclass(frozen=True)
class LayoutMatch:
    """A layout that fits a file: what is read as what, and how."""

    layout: str
    columns: Mapping[str, str]
    """The contract's column → the file's."""
    to_rows: ToRows
    grouped_by: Callable[[Row], object] | None = None
    """Where several rows make one: what they have in common. Then `to_rows` takes their list."""
    vote: str | None = None
    """The column of the vote: an unknown value is counted over the whole file."""

    def __str__(self) -> str:
        """Return one line: the layout, and each column with what it was read from.

        >>> str(LayoutMatch("preference", {"question": "prompt"}, lambda k, row: iter(())))
        'layout preference: question = prompt'
        """
        read = ", ".join(f"{column} = {source}" for column, source in self.columns.items())
        return f"layout {self.layout}: {read}"


@dataclass(frozen=True)
class RowLayout:
    """A form that public files have: its name, what it is, and how it is recognised."""

    name: str
    description: str
    recognise: Callable[[Peek, LayoutOptions], LayoutMatch | str]
    """The reading of a file that has this form, or what is missing."""


def exchanged(exchange: Exchange) -> dict[str, Any]:
    """Return the contract's columns of a question with its turns."""
    turns = [{"role": turn.role, "content": turn.content} for turn in exchange.turns]
    return {"question": exchange.question, **({"turns": turns} if turns else {})}


def half_pair(first: object, second: object, names: tuple[str, str]) -> None:
    """Raise `DataError` where only one of two responses is there."""
    for value, name, other in ((first, names[0], names[1]), (second, names[1], names[0])):
        if value is None or value == "":
            raise DataError(f"missing, where `{other}` is there: half a pair", field=name)
