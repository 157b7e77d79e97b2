"""A vote's value: which of two responses it is for, by the names that public files have."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, cast

from palate.errors import UsageError

Side = Literal["first", "second", "tie"]
SIDES: tuple[Side, ...] = ("first", "second", "tie")
TIES = (
    "tie",
    "tie (bothbad)",
    "tie (both bad)",
    "both bad",
    "both_bad",
    "bothbad",
    "both",
    "neither",
    "equal",
    "draw",
    "same",
    "none",
    "no preference",
    "no_preference",
    "undecided",
)
WORDS: dict[str, Side] = {
    "first": "first",
    "second": "second",
    "left": "first",
    "right": "second",
    **dict.fromkeys(TIES, "tie"),
}
STEMS = ("", "model", "response", "answer", "output", "completion", "assistant", "option", "side")


def parse_votes(pairs: Iterable[str]) -> dict[str, Side]:
    """Read `--vote 1=first` flags: what a value of the vote means.

    >>> parse_votes(["1=first", "0=second"])
    {'1': 'first', '0': 'second'}
    """
    given: dict[str, Side] = {}
    for text in pairs:
        value, equals, side = text.rpartition("=")
        if not equals or side not in SIDES:
            raise UsageError(f"--vote {text}: write VALUE=first, VALUE=second or VALUE=tie")
        given[spelled(value)] = side
    return given


def spelled(value: object) -> str:
    """Return a vote's value as it is compared: `1`, `1.0` and `"1"` are one.

    >>> spelled(1.0), spelled(" Tie "), spelled(True)
    ('1', 'tie', 'true')
    """
    if isinstance(value, float) and math.isfinite(value) and value == int(value):
        value = int(value)
    text = " ".join(str(value).split()).lower()
    head, _, tail = text.partition(".")
    return head if tail.strip("0") == "" and head.lstrip("-").isdigit() else text


def meanings(
    columns: tuple[str, str], suffixes: tuple[str, str], seen: Iterable[str]
) -> dict[str, Side] | None:
    """Return what each value means, given the responses' columns and the values that were seen.

    Names: the columns themselves, their endings (`a`, `b`), `model_a` and the like. Numbers: with
    columns that end in digits the digit; `0, 1, 2` are tie, first, second; a scale around 0 is the
    first's below it. None where numbers may mean either: 0 and 1 beside `a` and `b`.

    >>> meanings(("response_a", "response_b"), ("a", "b"), {"a", "b", "tie"})["b"]
    'second'
    >>> meanings(("response_a", "response_b"), ("a", "b"), {"0", "1"}) is None
    True
    """
    known: dict[str, Side] = dict(WORDS)
    for column, suffix, side in zip(columns, suffixes, ("first", "second"), strict=True):
        ending = suffix.lower()
        names = {column.lower()}
        names |= {f"{stem}{gap}{ending}" for stem in STEMS for gap in ("_", " ", "")}
        known |= dict.fromkeys(names, cast("Side", side))
    numbers = {int(value) for value in seen if value.lstrip("-").isdigit()}
    if not numbers:
        return known
    digits = tuple(int(suffix) for suffix in suffixes if suffix.isdigit())
    if any(number < 0 for number in numbers):
        scale = max(map(abs, numbers))
        for number in range(-scale, scale + 1):
            known[str(number)] = "tie" if number == 0 else "first" if number < 0 else "second"
    elif digits and numbers <= {*digits, *({0} if 0 not in digits else ())}:
        known |= {"0": "tie"} if 0 not in digits else {}
    elif numbers <= {0, 1, 2} and 2 in numbers:
        known |= {"0": "tie", "1": "first", "2": "second"}
    else:
        return None
    return known


def by_model(names: Mapping[str, object], columns: Sequence[str]) -> dict[str, Side]:
    """Return the meaning of a model's own name as a vote, where a row names the two models.

    >>> by_model({"model_a": "x-7b", "model_b": "y-7b"}, ("model_a", "model_b"))
    {'x-7b': 'first', 'y-7b': 'second'}
    """
    first, second = (spelled(names.get(column)) for column in columns)
    return {first: "first", second: "second"} if first != second else {}
