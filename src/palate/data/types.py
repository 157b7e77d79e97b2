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
LISTS = ("profile", "responses", "rubric_aspects", "rating_scale", "turns", "traits")
OPTIONAL = ("user_id", "mirror_of", "tie", *NUMBERS, *LISTS)
"""Columns in which an empty text is a missing value."""
FLAGS = {"true": True, "false": False, "1": True, "0": False, "1.0": True, "0.0": False,
         "yes": True, "no": False}  # fmt: skip


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
        if _is_nan(value) or (value == "" and name in OPTIONAL):
            tidy[name] = None
        elif name in IDENTIFIERS:
            tidy[name] = _whole(value)
        elif name == "tie":
            tidy[name] = FLAGS.get(str(value).strip().lower(), value)
        elif name in NUMBERS and isinstance(value, str):
            tidy[name] = _number(value)
        elif name in LISTS:
            tidy[name] = _listed(name, value)
    return tidy


def _is_nan(value: object) -> bool:
    # NaT and pandas' NA differ from themselves, or refuse to be compared.
    if isinstance(value, float):
        return math.isnan(value)
    return type(value).__name__ in ("NaTType", "NAType")


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
    if isinstance(value, str) and value.strip()[:1] in ("[", "{"):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError) as error:
            raise DataError(f"looks like JSON and is not ({error})", field=name) from None
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
        return {**post, "id": None if _is_nan(post["id"]) else _whole(post["id"])}
    return post
