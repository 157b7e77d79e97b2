"""Files of questions or pairs: columns mapped, bad rows named."""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from palate.data.files import read_rows, stem
from palate.data.layouts import LayoutMatch, LayoutOptions, understand
from palate.data.layouts.posts import WithPosts, posts_of
from palate.data.mapping import Mapped
from palate.data.rows import CHOICE, read_question
from palate.data.streams import MAX_LINE
from palate.data.types import STRUCTURED, tidied
from palate.errors import DataError
from palate.records import DistinctNames, PreferencePair, Question
from palate.seeding import canonical_json

LOG = logging.getLogger("palate")
LIST_OF_ONE = re.compile(r"\s*\[\s*(['\"]).*\1\s*\]\s*\Z", re.DOTALL)
WRAPPED = 0.9
"""Share of the rows from which on a wrapped side is told."""
Place = Callable[[int], tuple[str, int]]
"""Number of a row → its file and line."""


class LoadedRows(NamedTuple):
    """What a file gave: its rows, those left out, and the columns palate does not know."""

    rows: tuple[Question, ...]
    bad_rows: tuple[DataError, ...]
    unknown_columns: tuple[str, ...]
    reading: LayoutMatch | None = None
    """The layout that was read; None where the rows are of the contract as they lie."""
    numbered: bool = False
    """Whether rows are named by their number, since they have no id."""


def load_rows(
    path: Path | str,
    *,
    subset: str | None = None,
    columns: Mapping[str, str] | None = None,
    skip_bad_rows: bool = False,
    order_as_in_file: bool = False,
    max_line: int = MAX_LINE,
    layout: LayoutOptions | None = None,
    files: Sequence[Path] | None = None,
) -> LoadedRows:
    """Read a file, a folder of shards, or the `files` that a path stands for.

    Rows are of the contract, or of a layout that is known.

    `columns` maps a name of the contract to the file's own, e.g. `{"chosen": "better"}`. The first
    bad row raises its `DataError` unless `skip_bad_rows`; then bad rows are left out and returned.
    Ids of users, rows, subsets or splits that differ in form alone raise it in any case. With
    `order_as_in_file` no date is read.
    """
    columns = columns or {}
    structured = {columns.get(name, name) for name in STRUCTURED}
    rows = read_rows(path, max_line, files=files, structured=structured)
    return understood(
        rows,
        str(path),
        subset or stem(Path(path).name),
        columns,
        layout or LayoutOptions(),
        skip_bad_rows=skip_bad_rows,
        order_as_in_file=order_as_in_file,
        place=rows.place,
    )


def understood(
    rows: Iterable[tuple[int, Any]],
    source: str,
    subset: str,
    columns: Mapping[str, str],
    layout: LayoutOptions,
    *,
    skip_bad_rows: bool,
    order_as_in_file: bool = False,
    place: Place | None = None,
) -> LoadedRows:
    """Rename columns, recognise the layout, add the posts of a second file, and check the rows."""
    mapped = Mapped(rows, columns)
    read = understand(iter(mapped), source, layout)
    if layout.posts is not None:
        dated = not order_as_in_file
        posts = posts_of(read_rows(layout.posts), str(layout.posts), dated=dated)
        read = read._replace(rows=iter(WithPosts(read.rows, posts, str(layout.posts))))
    loaded = collect(
        read.rows,
        source,
        subset,
        skip_bad_rows=skip_bad_rows,
        order_as_in_file=order_as_in_file,
        place=place,
    )
    mapped.check(source)
    if read.numbered:
        LOG.info("%s: rows have no id: each is named by its number", source)
    return loaded._replace(reading=read.reading, numbered=read.numbered)


def collect(
    rows: Iterable[tuple[int, Any]],
    source: str,
    subset: str,
    *,
    skip_bad_rows: bool,
    order_as_in_file: bool = False,
    place: Place | None = None,
) -> LoadedRows:
    """Check numbered rows one by one; duplicate ids are bad rows too.

    `place` gives the file and line of a number, where they are not the source and the number.

    Posts that hold their row's question are left out, which is logged with their number; so is
    where dates do not give the order.
    """
    questions: list[Question] = []
    leaking: list[str] = []
    bad: list[DataError] = []
    numbers: dict[str, int] = {}
    unknown: set[str] = set()
    names = DistinctNames()
    wrapped = 0
    partly_dated = 0
    place = place or (lambda number: (source, number))

    def in_words(number: int) -> str:
        file, line = place(number)
        return f"row {line}" if file == source else f"{file}:{line}"

    for number, row in rows:
        try:
            fields: list[str] = []
            checked = _row(row)
            wrapped += _one_side_wrapped(checked)
            question = read_question(
                tidied(checked),
                subset=subset,
                left_out=fields,
                order_as_in_file=order_as_in_file,
            )
            if (used := numbers.get(question.id)) is not None:
                raise DataError(f"{question.id!r} was used in {in_words(used)}", field="id")
        except DataError as error:
            file, line = place(number)
            named = DataError(error.problem, file=file, line=line, field=error.field)
            if not skip_bad_rows:
                raise named from None
            bad.append(named)
            continue
        numbers[question.id] = number
        _note_names(question, names, source, in_words(number))
        partly_dated += len({post.date is None for post in question.profile}) > 1
        unknown.update(question.extra)
        leaking += [f"{in_words(number)}, {name}" for name in fields]
        questions.append(question)
    if not questions:
        where = f"row {bad[0].line}" if bad and bad[0].file == source else str(bad and bad[0].file)
        first = f": {len(bad)} bad, the first in {where}" if bad else ""
        why = f" ({bad[0].problem})" if bad else ""
        field = bad[0].field if bad else None
        raise DataError(f"holds no usable row{first}{why}", file=source, field=field)
    if leaking:
        LOG.warning(
            "%s: %d posts that hold their row's question are left out (the first: %s)",
            source,
            len(leaking),
            leaking[0],
        )
    if partly_dated:
        LOG.warning(
            "%s: in %d profiles some posts have no date: there the order of the file counts, "
            "oldest first",
            source,
            partly_dated,
        )
    if order_as_in_file:
        LOG.warning(
            "%s: dates are not read (--order-as-in-file): posts and choices stand as in the file, "
            "oldest first",
            source,
        )
    if wrapped >= max(WRAPPED * len(questions), 2):
        LOG.warning(
            "%s: in %d of %d rows one response alone stands in brackets, as a list of one text: "
            "a scorer can tell the two by that",
            source,
            wrapped,
            len(questions),
        )
    return LoadedRows(tuple(questions), tuple(bad), tuple(sorted(unknown)))


def _note_names(question: Question, names: DistinctNames, source: str, place: str) -> None:
    mirror_of = question.mirror_of if isinstance(question, PreferencePair) else None
    in_use = {
        "user": question.user_id,
        "subset": question.subset,
        "split": question.split or "",
    }
    try:
        names.add("row", question.id, place)
        names.add("row", mirror_of or question.id, f"`mirror_of` of {place}")
        for what, name in in_use.items():
            names.add(what, name, place)
    except DataError as error:
        raise DataError(error.problem, file=source) from None


def content_hash(rows: Iterable[Question]) -> str:
    """Return the hash of the rows' content, in their order."""
    running = hashlib.sha256()
    for row in rows:
        known = canonical_json(row.to_row())
        # Columns palate does not know may hold anything: bytes, dates, NaN.
        extra = json.dumps(dict(row.extra), sort_keys=True, default=repr)
        running.update(f"{known}\n{extra}\n".encode())
    return running.hexdigest()


def _row(row: object) -> Mapping[str, Any]:
    if isinstance(row, DataError):
        raise row
    if not isinstance(row, Mapping):
        raise DataError(f"expected an object, got {type(row).__name__}")
    return row


def _one_side_wrapped(row: Mapping[str, Any]) -> bool:
    sides = [row.get(name) for name in CHOICE]
    marks = [bool(isinstance(side, str) and LIST_OF_ONE.match(side)) for side in sides]
    return marks[0] != marks[1]
