"""Choices among several responses, as field studies publish them: a row for each other response."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

from palate.data import (
    Account,
    FileReading,
    LayoutOptions,
    LoadedRows,
    LoadOptions,
    choice_key,
    collect,
    read_file,
    read_identifier,
    split_of,
)
from palate.errors import BenchmarkError, DataError
from palate.records import normal_form

Row = Mapping[str, Any]
Lines = Iterator[tuple[int, Any]]
Ballot = tuple[Row, Mapping[str, tuple[str | None, float | None]], str]
"""Columns of the row contract, place in the file → (response, rating), and the chosen place."""


def ballot_rows(ballot: Ballot) -> Iterator[dict[str, Any] | DataError]:
    """Yield the chosen response against each other one, and an error for what is no pair.

    All rows on a question are of one split; half of all questions, by hash, are `adapt`. Responses
    of equal rating are a tie.

    >>> asked = {"id": 7, "question": "A drink?"}
    >>> (row,) = ballot_rows((asked, {"a": ("Tea.", 9), "b": ("Milk.", 2)}, "a"))
    >>> row["id"], row["chosen"], row["rejected"], row["rejected_rating"], row["split"]
    ('7-2', 'Tea.', 'Milk.', 2, 'adapt')
    """
    columns, answers, chosen = ballot
    best, rating = answers[chosen]
    if best is None or len(answers) == 1:
        yield DataError("the chosen response is empty or the only one", field=chosen)
        return
    split = split_of(choice_key(columns["question"]), test_share=0.5, seed=0)
    shared = {**columns, "chosen": best, "chosen_rating": rating, "split": split}
    forms = {"", normal_form(best)}
    for k, (place, (text, number)) in enumerate(answers.items(), 1):
        form = normal_form(text or "")
        if place != chosen and form in forms:
            yield DataError("the text of another response" if form else "missing", field=place)
        elif place != chosen:
            forms.add(form)
            name, tie = f"{columns['id']}-{k}", number is not None and number == rating
            yield shared | {"id": name, "rejected": text, "rejected_rating": number, "tie": tie}


def load_ballots(
    file: Path, columns: Collection[str], read: Callable[[Row], Ballot], options: LoadOptions
) -> LoadedRows:
    """Return rows by conversation, and bad ones; `BenchmarkError` for columns or a layout."""
    if options.columns or options.layout != LayoutOptions():
        refused = "--map, --layout, --vote, --pairs and --posts"
        raise BenchmarkError(f"{file.name} is read by its own columns: leave out {refused}")
    ballots: dict[str, tuple[Ballot, int]] = {}
    bad: list[tuple[int, DataError]] = []
    for number, line in read_lines(file, columns, options):
        try:
            ballot = read(line)
        except DataError as error:
            bad.append((number, error))
            continue
        name, entry = ballot[0]["id"], (ballot, number)
        if name in ballots:
            bad.append((number, DataError(f"the conversation {name!r} is there twice")))
            entry = min(ballots[name], entry, key=repr)  # the same one in whichever order
        ballots[name] = entry
    in_order = (ballots[name] for name in sorted(ballots))
    rows = ((number, row) for ballot, number in in_order for row in ballot_rows(ballot))
    account = Account(str(file), "its own", {name: name for name in columns})
    return collect(chain(bad, rows), account, "all", replace(options, skip_bad_rows=True))


def read_lines(file: Path, columns: Collection[str], options: LoadOptions) -> Lines:
    """Yield numbered lines; raises `DataError` at their end for a column that none of them has."""
    absent, read = list(columns), False
    for number, line in read_file(file, FileReading(max_line=options.max_line, structured=())):
        if isinstance(line, Mapping):
            absent, read = [name for name in absent if name not in line], True
        yield number, line
    if read and absent:
        raise DataError("no such column", file=str(file), field=absent[0])


def cells(line: Row | DataError, *columns: str) -> list[str]:
    """Return the texts or whole numbers in these columns; raises `DataError` for what is none."""
    if not isinstance(line, Mapping):
        raise line if isinstance(line, DataError) else DataError("expected an object")
    for column in columns:
        if line.get(column) is None:
            raise DataError("missing", field=column)
    return [read_identifier(line[column], column) for column in columns]
