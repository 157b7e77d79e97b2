"""Which column holds what, by the names that public files have."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from palate.errors import DataError, UsageError

Row = Mapping[str, Any]
QUESTION = (
    "question",
    "prompt",
    "user_prompt",
    "instruction",
    "query",
    "input",
    "post",
    "history",
    "context",
)
WHO = (
    "user_id",
    "user",
    "voter",
    "judge",
    "judge_id",
    "annotator",
    "annotator_id",
    "worker",
    "worker_id",
    "rater",
    "rater_id",
    "labeler",
    "labeler_id",
    "participant",
    "participant_id",
    "person_id",
    "assessor",
    "reviewer_id",
    "author_id",
)
CHOICE = (
    "winner",
    "vote",
    "preference",
    "preferred",
    "preferred_response",
    "choice",
    "label",
    "labels",
    "better",
    "better_response_id",
    "human_preference",
    "overall_preference",
    "preference_strength",
    "preference_label",
)
SCORE = ("overall_score", "score", "rating", "reward", "helpfulness", "label", "rank")
RESPONSE = ("response", "model_response", "completion", "answer", "output", "text")
STEMS = (
    "response",
    "answer",
    "output",
    "completion",
    "conversation",
    "text",
    "candidate",
    "generation",
    "reply",
    "summary",
    "option",
    "human_ref",
    "messages",
    "chat",
)
ENDINGS = (("a", "b"), ("1", "2"), ("0", "1"), ("left", "right"))
ENDED = re.compile(rf"({'|'.join(STEMS)})[_ -]?(a|b|left|right|\d+)", re.IGNORECASE)
PEEK = 500
"""Rows whose columns are looked at."""


class Peek(NamedTuple):
    """The columns of a file's first rows, and the values that stand in them."""

    columns: tuple[str, ...]
    rows: tuple[Row, ...]

    @classmethod
    def of(cls, rows: Iterable[object]) -> Peek:
        """Look at rows; what is no row is passed over."""
        mappings = tuple(row for row in rows if isinstance(row, Mapping))
        names = dict.fromkeys(name for row in mappings for name in row if isinstance(name, str))
        filled = tuple(n for n in names if any(row.get(n) is not None for row in mappings))
        return cls(filled, mappings)

    def values(self, column: str) -> list[Any]:
        """Return what the column holds, where it holds anything."""
        return [row[column] for row in self.rows if row.get(column) is not None]

    def hold(self, column: str, kind: type | tuple[type, ...]) -> bool:
        """Tell whether the column is there and all it holds is of this kind."""
        return column in self.columns and all(isinstance(v, kind) for v in self.values(column))

    def first(self, names: Sequence[str]) -> str | None:
        """Return the first of these columns that is there."""
        return next((name for name in names if name in self.columns), None)


class TwoResponses(NamedTuple):
    """The columns of two responses."""

    columns: tuple[str, str]
    endings: tuple[str, str]
    stem: str


def two_responses(peek: Peek) -> list[TwoResponses]:
    """Return every pair of columns that may hold two responses.

    >>> peek = Peek(("prompt", "response_a", "response_b", "model_a", "model_b"), ())
    >>> [two.columns for two in two_responses(peek)]
    [('response_a', 'response_b')]
    """
    by_stem: dict[str, dict[str, str]] = {}
    for column in peek.columns:
        if match := ENDED.fullmatch(column):
            by_stem.setdefault(match[1].lower(), {})[match[2].lower()] = column
    pairs = []
    for stem, ended in by_stem.items():
        for endings in ENDINGS:
            if set(ended) == set(endings):
                columns = ended[endings[0]], ended[endings[1]]
                pairs.append(TwoResponses(columns, endings, stem))
    return pairs


def who_column(peek: Peek) -> str | None:
    """Return the column that says whose preference a row is.

    Raises `UsageError` where two could: who judged is not guessed.

    >>> who_column(Peek(("prompt", "annotator_id"), ()))
    'annotator_id'
    """
    named = [name for name in WHO if name in peek.columns]
    if not named or named[0] == "user_id":
        return named[0] if named else None
    if len(named) > 1:
        which = ", ".join(named)
        raise UsageError(f"{which} could each be who chose: name one, as --map user_id={named[0]}")
    return named[0]


def only_column(peek: Peek, names: Sequence[str], what: str, name: str) -> str | None:
    """Return the one of these columns that is there; raises `UsageError` where there are two."""
    named = [column for column in names if column in peek.columns]
    if len(named) > 1 and named[0] != name:
        which = ", ".join(named)
        raise UsageError(f"{which} could each be {what}: say which with --map {name}={named[0]}")
    return named[0] if named else None


def plain_columns(row: Row, used: Iterable[str]) -> dict[str, Any]:
    """Return what a row holds beside the columns that a layout reads."""
    taken = set(used)
    return {name: value for name, value in row.items() if name not in taken}


def needs(row: Row, column: str) -> Any:
    """Return a cell; raises `DataError` where it is missing."""
    value = row.get(column)
    if value is None:
        raise DataError("missing", field=column)
    return value
