"""Which column holds what, by the names that public files have."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

from palate.data.account import Account
from palate.data.conversations import Exchange
from palate.errors import DataError, UsageError

Row = Mapping[str, Any]
Numbered = tuple[int, Any]
"""(row number, row or its `DataError`)."""
Side = Literal["first", "second", "tie"]
"""Which of two responses a vote is for."""
QUESTION = (
    *("question", "prompt", "user_prompt", "instruction", "query", "input", "post", "history"),
    "context",
)
PEOPLE = (
    *("user", "voter", "judge", "annotator", "worker", "rater", "labeler", "labeller", "person"),
    *("participant", "assessor", "reviewer", "evaluator", "respondent", "visitor"),
)
WHO = (*(f"{noun}{ending}" for noun in PEOPLE for ending in ("_id", "")), "author_id")
CHOICE = (
    *("winner", "vote", "preference", "preferred", "preferred_response", "choice", "label"),
    *("labels", "better", "better_response_id", "human_preference", "overall_preference"),
    *("overall_pref", "preference_strength", "preference_label"),
)
SCORE = ("overall_score", "score", "rating", "reward", "helpfulness", "label", "rank")
RESPONSE = ("response", "model_response", "completion", "answer", "output", "text")
STEMS = (
    *("response", "answer", "output", "completion", "conversation", "text", "candidate"),
    *("generation", "reply", "summary", "option", "human_ref", "messages", "chat"),
)
ENDINGS = (("a", "b"), ("1", "2"), ("0", "1"), ("left", "right"))
ENDED = re.compile(rf"({'|'.join(STEMS)})[_ -]?([a-h]|left|right|\d+)", re.IGNORECASE)
PREFIX = re.compile(r"(?:input|output|answer|assignment)[.:](?=.)", re.IGNORECASE)
"""What MTurk and Toloka write before the columns of a task."""
VOTE_OF = "vote of "
"""What `--map votes=` writes before the columns that are a person's votes each."""
PEEK = 500
"""Rows whose columns are looked at."""
UNNAMED = -1
"""Stands for the id of a row without one, until it is made of what the row holds."""
PAIRS = ("all", "best-worst", "adjacent")
QUOTING = ("none", "minimal")


def plain_form(column: str) -> str:
    """Return a column's name without capitals and marks between words.

    >>> plain_form("User ID"), plain_form("createdAt"), plain_form("Input.prompt")
    ('user_id', 'created_at', 'prompt')
    """
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", PREFIX.sub("", column.strip()))
    return re.sub(r"[\s_-]+", "_", words).lower().strip("_")


def changed(rows: Iterable[Numbered], change: Callable[[Row], Row]) -> Iterator[Numbered]:
    """Yield rows as `change` makes them; where it raises `DataError`, the row is a bad one."""
    for number, row in rows:
        changed_row = row
        if isinstance(row, Mapping):
            try:
                changed_row = change(row)
            except DataError as error:
                changed_row = error
        yield number, changed_row


class TwoResponses(NamedTuple):
    """The columns of two responses."""

    columns: tuple[str, str]
    endings: tuple[str, str]
    stem: str


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

    def lacks(self, *names: str) -> str | None:
        """Say which of these columns is not there, the first of them."""
        missing = (f"no column {name!r}" for name in names if name not in self.columns)
        return next(missing, None)

    def only(self, names: Sequence[str], what: str, name: str) -> str | None:
        """Return the one of these columns that is there; `UsageError` where there are two."""
        named = [column for column in names if column in self.columns]
        if len(named) > 1 and named[0] != name:
            which = ", ".join(named)
            raise UsageError(
                f"{which} could each be {what}: say which with --map {name}={named[0]}"
            )
        return named[0] if named else None

    def who(self) -> str | None:
        """Return the column that says who chose; raises `UsageError` where two could be it.

        >>> Peek(("prompt", "annotator_id"), ()).who()
        'annotator_id'
        """
        named = [name for name in WHO if name in self.columns]
        if len(named) > 1 and named[0] != "user_id":
            which, first = ", ".join(named), named[0]
            raise UsageError(f"{which} could each be who chose: name one, as --map user_id={first}")
        return named[0] if named else None

    def ended_alike(self) -> dict[str, dict[str, str]]:
        """Return the columns of responses by what they begin with, then by what they end in.

        >>> Peek(("prompt", "response_a", "Response B", "response_c", "model_a"), ()).ended_alike()
        {'response': {'a': 'response_a', 'b': 'Response B', 'c': 'response_c'}}
        """
        by_stem: dict[str, dict[str, str]] = {}
        for column in self.columns:
            if match := ENDED.fullmatch(column):
                by_stem.setdefault(match[1].lower(), {})[match[2].lower()] = column
        return by_stem

    def two_responses(self) -> list[TwoResponses]:
        """Return every pair of columns that may hold two responses.

        >>> peek = Peek(("prompt", "response_a", "response_b", "model_a", "model_b"), ())
        >>> [two.columns for two in peek.two_responses()]
        [('response_a', 'response_b')]
        """
        return [
            TwoResponses((ended[endings[0]], ended[endings[1]]), endings, stem)
            for stem, ended in self.ended_alike().items()
            for endings in ENDINGS
            if set(ended) == set(endings)
        ]


def plain_columns(row: Row, used: Iterable[str | None]) -> dict[str, Any]:
    """Return what a row holds beside the columns that a layout reads."""
    taken = set(used)
    return {name: value for name, value in row.items() if name not in taken}


def needs(row: Row, column: str) -> Any:
    """Return a cell; raises `DataError` where it is missing."""
    value = row.get(column)
    if value is None:
        raise DataError("missing", field=column)
    return value


@dataclass(frozen=True)
class LayoutOptions:
    """How the rows of a file are to be understood, as given on the command line."""

    name: str | None = None
    """A layout by name; `none` reads the contract alone."""
    pairs: str = "all"
    """Which pairs are made of three responses or more: all, best-worst, adjacent."""
    votes: Mapping[str, Side] = field(default_factory=dict)
    """What values of a vote mean."""
    posts: Any = None
    """What users wrote: the path of a second file, or rows as `Dataset.of` takes them."""
    posts_columns: Mapping[str, str] = field(default_factory=dict)
    """Columns of that file, by palate's names: user_id, text, date."""
    mapped: frozenset[str] = frozenset()
    """Names that were given to columns by `--map`: these win over any recognition."""
    quoting: str | None = None
    """What quotes in CSV are, where it could be either: `none` for text, `minimal` for around
    cells."""

    def __post_init__(self) -> None:
        """Raise `UsageError` for pairs that palate does not make."""
        if self.pairs not in PAIRS:
            raise UsageError(f"--pairs {self.pairs}: expected one of {', '.join(PAIRS)}")
        if self.quoting not in (None, *QUOTING):
            raise UsageError(f"--quoting {self.quoting}: expected {' or '.join(QUOTING)}")


@dataclass(frozen=True)
class LayoutMatch:
    """What of a file that has a layout is read as what, and how."""

    columns: Mapping[str, str | None]
    """The contract's column → the file's; of None nothing is read."""
    to_rows: Callable[[Any], Iterable[dict[str, Any]]]
    """Row → rows of the contract; raises `DataError`."""
    grouped_by: Callable[[Row], object] | None = None
    """Where several rows make one: what they have in common. Then `to_rows` takes their list."""
    vote: str | None = None
    """The column of the vote: an unknown value is counted over the whole file."""
    account: Account = field(default_factory=lambda: Account(""), compare=False)
    """Takes what `to_rows` leaves out or makes one."""
    layout: str = ""
    """Its name."""

    @property
    def read(self) -> dict[str, str]:
        """The contract's column → the file's."""
        return {ours: theirs for ours, theirs in self.columns.items() if theirs}

    def __str__(self) -> str:
        """Return one line: the layout, and each column with what it was read from.

        >>> str(LayoutMatch({"question": "prompt"}, lambda row: (), layout="preference"))
        'layout preference: question = prompt'
        """
        columns = ", ".join(f"{column} = {source}" for column, source in self.read.items())
        return f"layout {self.layout}: {columns}"


Recognise = Callable[[Peek, LayoutOptions], LayoutMatch | str]
"""Returns the reading of a file that has this form, or what is missing."""


@dataclass(frozen=True)
class RowLayout:
    """A form that public files have: its name, what it is, and how it is recognised."""

    name: str
    description: str
    match: Recognise

    def recognise(self, peek: Peek, options: LayoutOptions) -> LayoutMatch | str:
        """Return the reading of a file that has this form, or what is missing."""
        reading = self.match(peek, options)
        return reading if isinstance(reading, str) else replace(reading, layout=self.name)


def row_layout(name: str, description: str) -> Callable[[Recognise], RowLayout]:
    """Make a layout of the function that recognises it."""
    return lambda match: RowLayout(name, description, match)


def pair_row(row: Row, used: Iterable[str | None], both: Exchange, **more: Any) -> dict[str, Any]:
    """Return the contract's row of two responses, the better one first, and the plain columns."""
    chosen, rejected = both.responses
    pair = {"chosen": chosen, "rejected": rejected, **more}
    return {**plain_columns(row, used), **both.columns, **pair}


def user_of(row: Row, who: str | None) -> dict[str, Any]:
    """Return the contract's column of who chose, where a column says it."""
    return {"user_id": row.get(who)} if who else {}


def half_pair(first: object, second: object, names: tuple[str, str]) -> None:
    """Raise `DataError` where only one of two responses is there."""
    for value, name, other in ((first, names[0], names[1]), (second, names[1], names[0])):
        if value is None or value == "":
            raise DataError(f"missing, where `{other}` is there: half a pair", field=name)
