"""The form that every layout is read into: an input, its user's own text, their earlier texts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from palate.data import read_file
from palate.data.rows import SURROGATE
from palate.errors import DataError
from palate.records import date_text

ADAPT = "adapt"
DAY = re.compile(r"(\d{4}-\d\d-\d\d) ")


class EarlierText(NamedTuple):
    """One text of a user's profile."""

    id: str | None
    text: str
    question: str | None = None
    """What the text answers, as a row would ask it; None where that is not known."""
    source: str | None = None
    """The part of the question that other questions lack."""
    date: str | None = None


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


Entries = Iterator[OwnTextEntry | DataError]
"""What a layout yields: entries, and the errors of rows that cannot be read."""


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


def as_mapping(value: object) -> Mapping[str, Any]:
    """Return a row; raises `DataError` for what is no object."""
    if isinstance(value, DataError):
        raise value
    if not isinstance(value, Mapping):
        raise DataError(f"expected an object, got {type(value).__name__}")
    return value


def text_of(row: Mapping[str, Any], name: str) -> str:
    """Return a text; raises `DataError` where it is missing, empty or no Unicode."""
    text = possible_text(row, name)
    if not text:
        raise DataError("expected a text, which is missing or empty", field=name)
    return text


def possible_text(row: Mapping[str, Any], name: str) -> str:
    """Return a text, empty where it is missing; raises `DataError` for what is no text."""
    value = row.get(name)
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise DataError(f"expected a text, got {type(value).__name__}", field=name)
    text = str(value)
    if SURROGATE.search(text):
        raise DataError("holds half a surrogate pair; not Unicode text", field=name)
    return text if text.strip() else ""


def date_of(row: Mapping[str, Any]) -> str | None:
    """Return what `date` or `year` holds as text, ISO's with a T; None where there is nothing.

    >>> date_of({"date": "2012-05-04 10:00"}), date_of({"year": 2007}), date_of({"date": None})
    ('2012-05-04T10:00', '2007', None)
    """
    name = "date" if row.get("date") else "year"
    try:
        text = date_text(row.get(name))
    except DataError as error:
        raise DataError(error.problem, field=name) from None
    return None if text is None else DAY.sub(r"\1T", text.strip(), count=1)


def earlier_items(row: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Return a row's profile; raises `DataError` unless it is a list of one object or more."""
    items = row.get("profile")
    if not isinstance(items, list) or not all(isinstance(item, Mapping) for item in items):
        raise DataError("expected a list of objects", field="profile")
    if not items:
        raise DataError("the user has no earlier text", field="profile")
    return items
