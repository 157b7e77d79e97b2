"""Types as people have them: pandas' whole floats, NaN, 0 and 1, numbers and lists as text."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from palate.data.rows import KNOWN
from palate.errors import DataError

IDENTIFIERS = ("id", "user_id", "mirror_of")
NUMBERS = ("chosen_rating", "rejected_rating")
STRUCTURED = frozenset(
    {"profile", "rating_scale", "responses", "rubric_aspects", "traits", "turns"}
)
"""Columns of the contract that hold lists or objects."""
OPTIONAL = ("user_id", "mirror_of", "tie", *NUMBERS, *STRUCTURED)
"""Columns in which an empty text is a missing value."""
FLAGS = {
    "true": True,
    "false": False,
    "1": True,
    "0": False,
    "1.0": True,
    "0.0": False,
    "yes": True,
    "no": False,
}


def tidied(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row of the contract with its types set right; other columns stay as they are.

    Whole floats become ids, NaN and empty cells are missing, 0, 1 and "true" are flags, numbers and
    lists in texts are read, and a post may be a plain text. What would change meaning is left as it
    is, and the contract refuses it: a boolean as a rating, a number as a text.

    >>> tidied({"id": 3.0, "user_id": float("nan"), "tie": 1, "chosen_rating": "4.5"})
    {'id': 3, 'user_id': None, 'tie': True, 'chosen_rating': 4.5}
    >>> tidied({"profile": ["I like tea."]})
    {'profile': [{'text': 'I like tea.'}]}
    """
    tidy = dict(row)
    for name, value in row.items():
        if name not in KNOWN:
            continue
        if is_missing(value) or (value == "" and name in OPTIONAL):
            tidy[name] = None
        elif name in IDENTIFIERS:
            tidy[name] = _whole(value)
        elif name == "tie":
            tidy[name] = FLAGS.get(str(value).strip().lower(), value)
        elif name in NUMBERS and isinstance(value, str):
            tidy[name] = _number(value)
        elif name in STRUCTURED:
            tidy[name] = _listed(name, value)
    return tidy


def is_missing(value: object) -> bool:
    """Tell whether a value stands for none: NaN, NaT or NA.

    >>> is_missing(float("nan")), is_missing(None), is_missing("nan")
    (True, False, False)
    """
    # NaT and pandas' NA differ from themselves, or refuse to be compared.
    if isinstance(value, float):
        return math.isnan(value)
    return type(value).__name__ in ("NaTType", "NAType")


def decoded(text: str, field: str | None = None) -> Any:
    """Return the list or object that a text holds as JSON; another text as it is.

    Raises `DataError`, with the field, for a text that begins as one and is none.

    >>> decoded('["Green.", "Black."]'), decoded("Green.")
    (['Green.', 'Black.'], 'Green.')
    """
    if not text.lstrip().startswith(("[", "{")):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        problem = f"not JSON ({error}); write lists and objects with json.dumps"
        raise DataError(problem, field=field) from None


def _whole(value: object) -> object:
    if isinstance(value, float) and math.isfinite(value) and value == int(value):
        return int(value)
    return value


def _number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def _listed(name: str, value: object) -> object:
    if isinstance(value, str):
        value = decoded(value, name)
    if name != "profile":
        return value
    if isinstance(value, str):
        return [{"text": value}]
    if isinstance(value, list | tuple):
        return [_post(post) for post in value]
    return value


def _post(post: object) -> object:
    if isinstance(post, str):
        return {"text": post}
    if isinstance(post, Mapping) and "id" in post:
        return {**post, "id": None if is_missing(post["id"]) else _whole(post["id"])}
    return post
