"""Fields of rows that are checked as they are read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from palate.data.rows import SURROGATE
from palate.errors import DataError
from palate.records import date_text

DAY = re.compile(r"(\d{4}-\d\d-\d\d) ")


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
