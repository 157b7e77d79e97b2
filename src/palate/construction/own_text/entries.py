"""The form that every layout is read into: an input, its user's own text, their earlier texts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from palate.construction.fields import as_mapping
from palate.construction.stage import Dropped
from palate.data import read_file
from palate.errors import DataError

ADAPT = "adapt"


class EarlierText(NamedTuple):
    """One text of a user's profile."""

    id: str | None
    text: str
    question: str | None = None
    """What the text answers, as a row would ask it; None where that is not known."""
    source: str | None = None
    """The part of the question that other questions lack."""
    date: str | None = None
    attribution: str = ""


class OwnTextEntry(NamedTuple):
    """One input with its user's own text."""

    id: str
    user: str
    question: str
    source: str
    text: str
    earlier: tuple[EarlierText, ...] = ()
    date: str | None = None
    category: str = ""
    split: str = "test"
    attribution: str = ""
    """Whose texts these are, and under which licence; the own text's after `; answer: `."""
    is_beside: bool = False
    """Whether other rows may reject the text although it has no row itself."""


Entries = Iterator[OwnTextEntry | DataError | Dropped]
"""What a layout yields: entries, the errors of rows that cannot be read, and what is no entry."""


def read_entries(
    files: Sequence[Path], entry: Callable[[Mapping[str, Any], str], OwnTextEntry]
) -> Entries:
    """Yield the entries of files of rows, each made of a row and a name for one without an id."""
    for path in files:
        for number, row in read_file(path):
            try:
                yield entry(as_mapping(row), f"{path.name.partition('.')[0]}-{number}")
            except DataError as error:
                yield DataError(error.problem, file=str(path), line=number, field=error.field)


def earlier_items(row: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Return a row's profile; raises `DataError` unless it is a list of one object or more."""
    items = row.get("profile")
    if not isinstance(items, list) or not all(isinstance(item, Mapping) for item in items):
        raise DataError("expected a list of objects", field="profile")
    if not items:
        raise DataError("the user has no earlier text", field="profile")
    return items
