"""A vote's value: which of two responses it is for, by the names that public files have."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import cast

from palate.data.columns import Row, Side, TwoResponses
from palate.data.types import FLAGS
from palate.errors import DataError, UsageError

SIDES: tuple[Side, ...] = ("first", "second", "tie")
TIES = (
    *("tie", "tie (bothbad)", "tie (both bad)", "both bad", "both_bad", "bothbad", "both"),
    *("neither", "equal", "draw", "same", "none", "no preference", "no_preference", "undecided"),
)
WORDS: dict[str, Side] = {
    **{"first": "first", "second": "second", "left": "first", "right": "second"},
    **dict.fromkeys(TIES, "tie"),
}
SCALES = ("overall_preference", "preference_strength")
"""Votes on a scale around 0, whatever values are seen: below it is for the first response."""
BETTER = re.compile(
    r"[ -]is[ -](?:(?:slightly|somewhat|clearly|much|far|significantly)[ -])?better(?: than .*)?\Z"
)
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
MODEL = re.compile(r"(?:model|system|id)(?:_name|_id)?_?([ab12])(?:_name|_id)?", re.IGNORECASE)
"""Columns that name what each response is of, by whose names a vote may go."""
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
    text = BETTER.sub("", " ".join(str(value).split()).lower())
    head, _, tail = text.partition(".")
    return head if tail.strip("0") == "" and head.lstrip("-").isdigit() else text


def names_of(column: str, ending: str) -> set[str]:
    """Return how votes name the response of a column: by it, its ending, `model_a` and the like.

    >>> sorted(names_of("Response A", "a") & {"a", "response a", "model_a", "b"})
    ['a', 'model_a', 'response a']
    """
    names = {f"{stem}{gap}{ending.lower()}" for stem in STEMS for gap in ("_", " ", "")}
    return {column.lower(), *names}


def meanings(
    columns: tuple[str, str], suffixes: tuple[str, str], seen: Iterable[str]
) -> dict[str, Side] | None:
    """Return what each value means, given the responses' columns and the values that were seen.

    Names: the columns themselves, their endings (`a`, `b`), `model_a` and the like. Numbers: with
    columns that end in digits the digit. None where numbers may mean either: 0 and 1 beside `a`
    and `b`, 0 and 1 beside `1` and `2`, 0, 1 and 2 anywhere.

    >>> meanings(("response_a", "response_b"), ("a", "b"), {"a", "b", "tie"})["b"]
    'second'
    >>> meanings(("response_a", "response_b"), ("a", "b"), {"0", "1"}) is None
    True
    """
    known: dict[str, Side] = dict(WORDS)
    for column, suffix, side in zip(columns, suffixes, ("first", "second"), strict=True):
        known |= dict.fromkeys(names_of(column, suffix), cast("Side", side))
    numbers = {value for value in seen if is_number(value)}
    digits = {suffix for suffix in suffixes if suffix.isdigit()}
    if numbers and (not numbers <= digits or not numbers & (digits - {"1"})):
        return None  # 1 alone may be the first response, or the second counted from 0
    return known


def sides_of(
    values: Iterable[object], choice: str, two: TwoResponses, told: Mapping[str, Side]
) -> Mapping[str, Side]:
    """Return what each value of a vote means; raises `UsageError` for numbers that are not told."""
    # The Stanford Human Preferences say 1 where A is preferred.
    fixed: dict[str, Side] = {"1": "first", "0": "second"} if two.stem == "human_ref" else {}
    seen = {spelled(value) for value in values} - fixed.keys()
    given: dict[str, Side] = {"-": "first", "0": "tie", "+": "second"} if choice in SCALES else {}
    given |= {spelled(value): side for value, side in told.items()}
    read = meanings(two.columns, two.endings, seen)
    if read is None or {"+", "-"} & given.keys():
        # Where numbers are told, the digits that columns end in say nothing.
        words = meanings(two.columns, two.endings, ()) or {}
        read = {name: side for name, side in words.items() if not is_number(name)}
        untold = filter(is_number, seen - given.keys())
        numbers = sorted((value for value in untold if not sign_of(value, given)), key=float)
        if len(numbers) == 1 and {*given.values()} == {"first", "second"}:
            given[numbers[0]], numbers = "tie", []  # which alone is left
        if numbers:
            ways = [" ".join(f"--vote {flag}" for flag in way) for way in readings_of(numbers)]
            raise UsageError(
                f"{choice} is {', '.join(numbers)}: say what that means (the first response is "
                f"{two.columns[0]}), as {'; or '.join(ways)}"
            )
    return {**read, **fixed, **given}


def side_of(row: Row, value: object, choice: str, read: Mapping[str, Side]) -> Side:
    """Return which response a row's vote is for; raises `DataError` for one that is not known."""
    if value is None or value == "":
        if FLAGS.get(spelled(row.get("tie"))):
            return "tie"
        raise DataError("missing: who chose what is not known", field=choice)
    text = spelled(value)
    side = by_model(row).get(text) or read.get(text) or sign_of(text, read)
    if side is None:
        raise DataError(
            f"the vote {value!r} is not known; say what it means with --vote "
            f"{value}=first, second or tie",
            field=choice,
        )
    return side


def is_number(value: str) -> bool:
    """Tell whether a vote's value is a number."""
    return NUMBER.fullmatch(value) is not None


def sign_of(value: str, given: Mapping[str, Side]) -> Side | None:
    """Return what `--vote +=first` and `--vote -=second` say of a number on a scale around 0.

    >>> sign_of("-2.5", {"+": "first", "-": "second"}), sign_of("0", {"+": "first"})
    ('second', None)
    """
    if not {"+", "-"} & given.keys() or value.strip("-0.") == "" or not is_number(value):
        return None
    return given.get("-" if value.startswith("-") else "+")


def readings_of(numbers: Iterable[str]) -> list[list[str]]:
    """Return what numbers of a vote may mean, each reading as `--vote` flags.

    >>> readings_of(["0", "1"]), readings_of(["-4", "0", "2.5"])[0]
    ([['0=first', '1=second'], ['0=second', '1=first']], ['-=first', '0=tie', '+=second'])
    """
    values = sorted(numbers, key=float)
    if len(values) > 2 and float(values[0]) < 0 < float(values[-1]):
        zero = ["0"] if "0" in values else []
        values = ["-", *zero, "+"]
    middle = len(values) // 2
    odd = len(values) % 2
    sides = ["first"] * middle + ["tie"] * odd + ["second"] * middle
    orders = [sides, sides[::-1]]
    if len(values) == 3 and "-" not in values:
        orders = [["tie", "first", "second"], ["first", "second", "tie"], sides, sides[::-1]]
    if len(values) == 1:
        orders = [["first"], ["second"], ["tie"]]
    return [[f"{v}={side}" for v, side in zip(values, order, strict=True)] for order in orders]


def by_model(row: Row) -> dict[str, Side]:
    """Return the meaning of a model's own name as a vote, where a row names the two models.

    >>> by_model({"model_a": "x-7b", "model_b_name": "y-7b", "model_b": "y-7b"})
    {'x-7b': 'first', 'y-7b': 'second'}
    """
    named = sorted(
        (match[1].lower(), spelled(row[column]))
        for column in row
        if (match := MODEL.fullmatch(column)) and row[column] is not None
    )
    names = dict(named)
    if len(names) != 2 or len(set(named)) > 2:
        return {}
    first, second = names.values()
    return {first: "first", second: "second"} if first != second else {}
