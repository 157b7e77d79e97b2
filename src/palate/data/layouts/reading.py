"""Recognise the layout of rows by their columns, say it, and give rows of the contract."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any, NamedTuple

from palate.data.layouts.choice import CHOICE_OF_LIST
from palate.data.layouts.conversations import turns_of
from palate.data.layouts.known_columns import PEEK, Peek, Row
from palate.data.layouts.layout import LayoutMatch, LayoutOptions, Numbered, RowLayout
from palate.data.layouts.preference import PREFERENCE, REWARDBENCH_2
from palate.data.layouts.published import LAMP, PERSONALLLM
from palate.data.layouts.rated import RATED, RATED_ROWS
from palate.data.layouts.vote import VOTE
from palate.data.layouts.votes import spelled
from palate.errors import DataError, UsageError

LOG = logging.getLogger("palate")
READ = (PREFERENCE, REWARDBENCH_2, VOTE, CHOICE_OF_LIST, RATED, RATED_ROWS, PERSONALLLM, LAMP)
LAYOUTS = {layout.name: layout for layout in READ}
CONTRACT, NONE = "contract", "none"


class Understood(NamedTuple):
    """Rows of the contract, and how they were read."""

    reading: LayoutMatch | None
    """None where the rows are of the contract as they lie."""
    rows: Iterator[Numbered]
    numbered: bool
    """Whether rows have no id and are named by their number."""


def understand(rows: Iterator[Numbered], source: str, options: LayoutOptions) -> Understood:
    """Return the rows as rows of the contract, by the layout that fits.

    Raises `UsageError` where two layouts fit, or where the one that was named does not.
    """
    if options.name == NONE:
        return Understood(None, rows, numbered=False)
    seen = list(islice(rows, PEEK))
    peek = Peek.of(row for _, row in seen)
    rows = chain(seen, rows)
    try:
        reading = recognised(peek, options)
    except UsageError as error:
        raise UsageError(f"{source}: {error}") from None
    numbered = bool(peek.rows) and "id" not in peek.columns
    if reading is None:
        return Understood(None, _named(rows) if numbered else rows, numbered=numbered)
    LOG.info("%s: %s", source, reading)
    return Understood(reading, _named(_read(rows, reading)), numbered=numbered)


def recognised(peek: Peek, options: LayoutOptions) -> LayoutMatch | None:
    """Return the reading of a file, or None where it is of the contract."""
    if options.name not in (None, CONTRACT):
        layout = LAYOUTS.get(options.name or "")
        if layout is None:
            known = ", ".join([CONTRACT, *LAYOUTS, NONE])
            raise UsageError(f"--layout {options.name}: expected one of {known}")
        reading = layout.recognise(peek, options)
        if isinstance(reading, str):
            first = ", ".join(peek.columns) or "none"
            raise UsageError(
                f"not of layout {layout.name}: {reading} (the first rows have {first})"
            )
        return reading
    if options.name == CONTRACT or is_contract(peek, options):
        return None
    fitting = [
        (layout, reading)
        for layout in LAYOUTS.values()
        if isinstance(reading := layout.recognise(peek, options), LayoutMatch)
    ]
    if len(fitting) > 1:
        names = " and ".join(layout.name for layout, _ in fitting)
        raise UsageError(f"could be of layout {names}; say which with --layout NAME")
    return fitting[0][1] if fitting else None


def is_contract(peek: Peek, options: LayoutOptions | None = None) -> bool:
    """Tell whether rows have the contract's columns already: a question, and texts to choose from.

    >>> row = {"question": "Tea?", "chosen": "Green.", "rejected": "Black."}
    >>> vote = {"question": "Tea?", "response_a": "Green.", "response_b": "Black.", "winner": "a"}
    >>> is_contract(Peek.of([row])), is_contract(Peek.of([vote]))
    (True, False)
    """
    if "question" not in peek.columns or not _plain(peek, "question"):
        return False
    choices = [name for name in ("chosen", "rejected") if name in peek.columns]
    if not choices:
        return not any(
            isinstance(layout.recognise(peek, options or LayoutOptions()), LayoutMatch)
            for layout in (PREFERENCE, VOTE, CHOICE_OF_LIST, RATED, RATED_ROWS)
        )
    return all(_plain(peek, name) for name in choices)


def _plain(peek: Peek, column: str) -> bool:
    """Tell whether the column holds no list and no conversation."""
    values = peek.values(column)
    return not any(isinstance(value, list | tuple) for value in values) and not any(
        map(_conversation, values[:20])
    )


def _conversation(value: object) -> bool:
    try:
        return turns_of(value, "") is not None
    except DataError:
        return True


def _read(rows: Iterator[Numbered], reading: LayoutMatch) -> Iterator[Numbered]:
    stream = _grouped(rows, reading) if reading.grouped_by else rows
    unknown: Counter[str] | None = None
    while (numbered := next(stream, None)) is not None:
        number, row = numbered
        if not isinstance(row, Mapping | list):
            yield number, row
            continue
        try:
            for made in reading.to_rows(number, row):
                yield number, _without_foreign_turns(made)
        except DataError as error:
            if reading.vote is None or error.field != reading.vote:
                yield number, error
                continue
            if unknown is None:  # how often says whether it is a slip or another form
                rest = list(stream)
                unknown = Counter(_vote_of(other, reading.vote) for _, other in [numbered, *rest])
                stream = iter(rest)
            rows_alike = unknown[_vote_of(row, reading.vote)]
            yield number, DataError(f"{error.problem} ({rows_alike} rows)", field=error.field)


def _without_foreign_turns(row: dict[str, Any]) -> dict[str, Any]:
    """Give a column of that name another where it is no conversation (Nectar's number of turns)."""
    if "turns" in row and not isinstance(row["turns"], list):
        row["turns (of the file)"] = row.pop("turns")
    return row


def _vote_of(row: object, column: str) -> str:
    return spelled(row.get(column)) if isinstance(row, Mapping) else ""


def _grouped(rows: Iterator[Numbered], reading: LayoutMatch) -> Iterator[tuple[int, Any]]:
    groups: dict[object, tuple[int, list[Row]]] = {}
    assert reading.grouped_by is not None
    for number, row in rows:
        if isinstance(row, Mapping):
            groups.setdefault(reading.grouped_by(row), (number, []))[1].append(row)
        else:
            yield number, row
    yield from groups.values()


def _named(rows: Iterator[Numbered]) -> Iterator[Numbered]:
    """Give rows without an id their number; of several from one row, the first has it."""
    last, more = 0, 0
    for number, row in rows:
        if isinstance(row, Mapping) and row.get("id") is None:
            more = more + 1 if number == last else 0
            last = number
            yield number, {**row, "id": f"{number}-{more + 1}" if more else str(number)}
        else:
            yield number, row


def layout_lines(layouts: Sequence[RowLayout] = tuple(LAYOUTS.values())) -> list[tuple[str, str]]:
    """Return every layout's name and what it is, for a table."""
    return [(layout.name, layout.description) for layout in layouts]
