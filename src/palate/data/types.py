"""Types as people have them: pandas' whole floats, NaN, 0 and 1, numbers and lists as text."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Mapping
from typing import Any

from palate.errors import DataError

IDENTIFIERS = ("id", "user_id", "mirror_of")
NUMBERS = ("chosen_rating", "rejected_rating")
STRUCTURED = frozenset(
    {"profile", "rating_scale", "responses", "rubric_aspects", "traits", "turns"}
)
"""Columns of the contract that hold lists or objects."""
OPTIONAL = ("user_id", "mirror_of", "chosen_again", "tie", *NUMBERS, *STRUCTURED)
"""Columns in which an empty text is a missing value."""
TIDIED = frozenset((*IDENTIFIERS, *OPTIONAL))
"""Columns in which a text may stand for something else."""
EXACT = 2**53
"""Whole numbers up to here are all floats of 64 bits."""
POWER_OF_TEN = re.compile(r"\d(?:[.,]\d+)?[eE]\+\d+")
WHOLE = re.compile(r"(-?\d+)\.0+")
DECIMAL_COMMA = re.compile(r"\s*-?\d+,(?:\d\d?|\d{4,})\s*")
"""A number as in a spreadsheet of most of Europe; three digits could be thousands."""
FLAGS = {
    **dict.fromkeys(("true", "1", "1.0", "yes"), True),
    **dict.fromkeys(("false", "0", "0.0", "no"), False),
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
        if type(value) is str and name not in TIDIED:
            continue
        if is_missing(value) or (name in OPTIONAL and value == ""):
            tidy[name] = None
        elif name in IDENTIFIERS:
            tidy[name] = whole(value, name)
        elif name == "tie":
            tidy[name] = FLAGS.get(str(value).strip().lower(), value)
        elif name in NUMBERS and isinstance(value, str):
            tidy[name] = _number(value)
        elif name in STRUCTURED:
            tidy[name] = _listed(name, value)
        elif name == "split" and isinstance(value, int):
            tidy[name] = str(value)  # a column of 0 and 1 that was mapped
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
    """Return a text's list or object of JSON, or the text; raises `DataError` for a broken one.

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


def plain(value: Any) -> Any:
    """Return a value of another library, or a part of one, as Python's own; NaN and NA are None."""
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, dict | Mapping):
        return {n: part if type(part) is str else plain(part) for n, part in value.items()}
    if hasattr(value, "tolist"):  # an array of numpy, a number of it, a tensor
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    return None if is_missing(value) else value


def whole(value: object, field: str) -> object:
    """Return an id; a whole float, and `12.0` in a text, is the number.

    Raises `DataError` for what lost digits: floats that stand for several numbers, and the powers
    of ten of spreadsheets.

    >>> whole(12.0, "id"), whole("12.0", "id"), whole("007", "id")
    (12, '12', '007')
    """
    lost = "the id lost digits, and others may be the same now; keep the column as text"
    if isinstance(value, str):
        if POWER_OF_TEN.fullmatch(value.strip()):
            raise DataError(
                f"{value!r} is how spreadsheets write a long number: {lost}", field=field
            )
        if (number := WHOLE.fullmatch(value)) is None or abs(int(number[1])) >= EXACT:
            return value if number is None else whole(float(value), field)
        return number[1]
    if isinstance(value, float) and math.isfinite(value) and value == int(value):
        if abs(value) >= EXACT:
            raise DataError(
                f"{value!r} is a float beyond 2^53: {lost} (pandas: dtype=str)", field=field
            )
        return int(value)
    return value


def lost_zeros(names: Collection[str], others: Collection[str] | None = None) -> list[str]:
    """Return a name, and another that differs in zeros or capitals alone; else nothing.

    >>> lost_zeros({"007", "ann"}, {"7"}), lost_zeros({"007", "8"}), lost_zeros({"Ann", "ann"})
    (['007', '7'], [], ['Ann', 'ann'])
    """
    every = sorted(names if others is None else others)
    bare = {WHOLE.sub(r"\1", other.casefold()).lstrip("0"): other for other in every}
    forms = ((name, WHOLE.sub(r"\1", name.casefold()).lstrip("0")) for name in sorted(names))
    twins = ([name, bare.get(form, name)] for name, form in forms)
    return next((pair for pair in twins if pair[0] != pair[1]), [])


def score_of(value: object, field: str) -> float | None:
    """Return a score, None where it is missing or not finite; raises `DataError` for no number.

    >>> score_of("4,5", "score"), score_of(True, "score"), score_of(float("inf"), "score")
    (4.5, 1.0, None)
    """
    if value is None or value == "" or is_missing(value):
        return None
    try:
        number = float(_pointed(value))  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        raise DataError(f"expected a number, got {value!r}", field=field) from None
    return number if math.isfinite(number) else None


def _pointed(value: object) -> object:
    comma = isinstance(value, str) and DECIMAL_COMMA.fullmatch(value)
    return str(value).replace(",", ".") if comma else value


def _number(text: str) -> float | str | None:
    try:
        number = float(_pointed(text))  # type: ignore[arg-type]
    except ValueError:
        return text
    return None if math.isnan(number) else number


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
        return {**post, "id": None if is_missing(post["id"]) else whole(post["id"], "profile")}
    return post
