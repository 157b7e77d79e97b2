"""Recognise the layout of rows by their columns, say it, and give rows of the contract."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import chain, islice
from typing import Any

from palate.data.account import Account
from palate.data.asked import WholePrompts
from palate.data.chosen_layouts import lamp, personalllm, preference, rewardbench_2
from palate.data.columns import (
    CHOICE,
    ENDED,
    PEEK,
    PREFIX,
    QUESTION,
    RESPONSE,
    UNNAMED,
    VOTE_OF,
    WHO,
    LayoutMatch,
    LayoutOptions,
    Numbered,
    Peek,
    Row,
    changed,
    plain_form,
)
from palate.data.content import made_id
from palate.data.conversations import is_conversation
from palate.data.exported_layouts import argilla, label_studio, llama_factory, oasst, openai
from palate.data.rated_layouts import choice_of_list, rated, rated_rows
from palate.data.rows import KNOWN
from palate.data.vote_layout import vote
from palate.data.votes import names_of, spelled
from palate.errors import DataError, UsageError

LOG = logging.getLogger("palate")
READ = (
    *(preference, rewardbench_2, vote, choice_of_list, rated, rated_rows, personalllm, lamp),
    *(openai, llama_factory, label_studio, argilla, oasst),
)
LAYOUTS = {layout.name: layout for layout in READ}
NAMES = {*KNOWN, *QUESTION, *WHO, *CHOICE, *RESPONSE}
"""Names of columns that are known, as they are read without capitals too."""
TOLD = ("response", "winner", "score", "rank")
NUMBERED = re.compile(rf"(?:score|rank|winner)_(?:[ab12]|tie)|{ENDED.pattern}", re.IGNORECASE)
"""Names of `--map` that layouts alone read: such, and `response_c` or `score_a`."""
CONTRACT, NONE = "contract", "none"
OF_UNNAMED = re.compile(rf"{UNNAMED}(?:-|\Z)")


def understand(
    rows: Iterator[Numbered],
    options: LayoutOptions,
    account: Account,
    mapped: frozenset[str] = frozenset(),
) -> tuple[LayoutMatch | None, Iterator[Numbered], bool]:
    """Return the layout that fits, the rows as rows of the contract, and whether they have no ids.

    None where they are of the contract as they lie. Without ids they are named by their content.
    `mapped` are the names that the user gave to columns: those win over any recognition. Raises
    `UsageError` where two layouts fit, or where the one that was named does not.
    """
    source = account.source
    if options.name == NONE:
        return None, rows, False
    seen = list(islice(rows, PEEK))
    peek = Peek.of(row for _, row in seen)
    rows = chain(seen, rows)
    if plain := _plain_names(peek):
        LOG.info("%s: %s", source, ", ".join(f"{name} is {form}" for name, form in plain.items()))
        rows = _renamed(rows, plain)
        peek = Peek.of(row for _, row in _renamed(iter(seen), plain))
    options = replace(options, mapped=mapped)
    try:
        reading = recognised(peek, options)
        _refuse_unheard(peek, options, reading)
    except UsageError as error:
        raise UsageError(f"{source}: {error}") from None
    unnamed = bool(peek.rows) and "id" not in peek.columns
    if reading is not None:
        LOG.info("%s: %s", source, reading)
        account.layout = reading.layout
        account.columns |= {source: name for name, source in reading.read.items()}
        rows = _read(rows, reading, account)
    rows = iter(WholePrompts(rows, peek, account))
    named = _named(rows) if unnamed or reading is not None else rows
    return reading, _with_source(named, source), unnamed


def _plain_names(peek: Peek) -> dict[str, str]:
    """Return columns that are known names but for capitals and marks: `Prompt`, `User ID`."""
    forms = Counter(map(plain_form, peek.columns))
    return {
        name: form
        for name in peek.columns
        if (form := plain_form(name)) != name
        and forms[form] == 1
        and (form in NAMES or (PREFIX.match(name) and ENDED.fullmatch(form)))
    }


def _renamed(rows: Iterator[Numbered], names: Mapping[str, str]) -> Iterator[Numbered]:
    return changed(rows, lambda row: {names.get(name, name): cell for name, cell in row.items()})


def _with_source(rows: Iterator[Numbered], source: str) -> Iterator[Numbered]:
    try:
        yield from rows
    except UsageError as error:
        if isinstance(error, DataError):
            raise
        raise UsageError(f"{source}: {error}") from None


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
    if not fitting and peek.rows:
        raise UsageError(_no_layout(peek, options))
    return fitting[0][1] if fitting else None


def _no_layout(peek: Peek, options: LayoutOptions) -> str:
    """Return what the layouts that come nearest lack, and the flags that would tell it."""
    nearest = [vote, choice_of_list] if peek.ended_alike() else [preference, rated, rated_rows]
    lacking = "; ".join(f"{layout.name}: {layout.recognise(peek, options)}" for layout in nearest)
    alone = ", or read questions alone with --layout contract" * ("question" in peek.columns)
    return (
        f"no layout fits ({lacking}); name the columns with --map question=COLUMN and chosen, "
        "rejected, or response_a, response_b, winner (response_c and so on), or response, score "
        f"(rank where lower is better){alone}; the first rows have {', '.join(peek.columns)}"
    )


def _refuse_unheard(peek: Peek, options: LayoutOptions, reading: LayoutMatch | None) -> None:
    """Raise `UsageError` where nothing reads a name of `--map`, or two columns may be who chose."""
    columns = reading.columns if reading else {}
    texts = ", ".join(filter(None, columns.values()))
    for name in sorted(options.mapped):
        passed_over = columns.get(name) is not None or (reading and name in ("chosen", "rejected"))
        of_votes = name.startswith(VOTE_OF) and VOTE_OF not in texts
        told = passed_over or name in TOLD or NUMBERED.fullmatch(name) or of_votes
        if told and not re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", texts):
            ways = str(reading) if reading else _no_layout(peek, options)
            raise UsageError(f"nothing reads --map {'votes' if of_votes else name}=…: {ways}")
    ended = [both for by_end in peek.ended_alike().values() for both in by_end.items()]
    names = {name for end, column in ended for name in names_of(column, end)}
    named = not peek.lacks("chosen", "rejected") and {*map(spelled, peek.values("chosen"))} <= names
    if named and (reading is None or reading.layout == preference.name):
        raise UsageError("`chosen` names a column: say --map winner=chosen and --layout vote")
    others = [name for name in WHO if name in peek.columns and name != "user_id"]
    if columns.get("user_id") == "user_id" and others and "user_id" not in options.mapped:
        ways = " or ".join(f"--map user_id={name}" for name in ("user_id", *others))
        raise UsageError(f"user_id, {', '.join(others)} could each be who chose: say {ways}")


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
        if any(len(ended) > 1 for ended in peek.ended_alike().values()):
            return False  # two responses that nothing would read
        return not any("rejected" in name for name in peek.columns) and not any(
            isinstance(layout.recognise(peek, options or LayoutOptions()), LayoutMatch)
            for layout in (preference, vote, choice_of_list, rated, rated_rows)
        )
    return all(_plain(peek, name) for name in choices)


def _plain(peek: Peek, column: str) -> bool:
    """Tell whether the column holds no list and no conversation."""
    values = peek.values(column)
    return not any(isinstance(value, list | tuple) for value in values) and not any(
        map(is_conversation, values[:20])
    )


def _read(rows: Iterator[Numbered], reading: LayoutMatch, account: Account) -> Iterator[Numbered]:
    stream = _grouped(rows, reading) if reading.grouped_by else rows
    unknown: Counter[str] | None = None
    while (numbered := next(stream, None)) is not None:
        number, row = numbered
        if not isinstance(row, Mapping | list):
            yield number, row
            continue
        try:
            for made in _made(reading, row):
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
    account.add(reading.account)


def _made(reading: LayoutMatch, row: Any) -> Iterator[dict[str, Any]]:
    first = row[0] if isinstance(row, list) else row
    if first.get("id") is not None:
        yield from reading.to_rows(row)
        return
    first = {name: value for name, value in first.items() if name != "id"}
    for made in reading.to_rows([first, *row[1:]] if isinstance(row, list) else first):
        yield {**made, "id": None} if OF_UNNAMED.match(str(made.get("id"))) else made


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
    """Give rows without an id one by what they hold, which no format or order changes."""
    before: dict[str, int] = {}

    def named(row: Row) -> Row:
        return {**row, "id": made_id(row, before)} if row.get("id") is None else row

    return changed(rows, named)


def layout_lines() -> list[tuple[str, str]]:
    """Return every layout's name and what it is, for a table."""
    return [(layout.name, layout.description) for layout in LAYOUTS.values()]
