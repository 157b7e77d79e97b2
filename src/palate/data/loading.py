"""A file of questions or pairs: format by its ending, columns mapped, bad rows named."""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from palate.data.jsonl import MAX_LINE, read_jsonl
from palate.data.layouts import LayoutOptions, Reading, understand
from palate.data.layouts.posts import WithPosts, posts_of
from palate.data.mapping import Mapped
from palate.data.parquet import read_parquet
from palate.data.rows import CHOICE, read_question
from palate.data.types import tidied
from palate.errors import DataError
from palate.records import Names, PreferencePair, Question
from palate.seeding import canonical_json

LOG = logging.getLogger("palate")
FORMATS = (".jsonl", ".jsonl.gz", ".parquet")
LIST_OF_ONE = re.compile(r"\s*\[\s*(['\"]).*\1\s*\]\s*\Z", re.DOTALL)
WRAPPED = 0.9
"""Share of the rows from which on a wrapped side is told."""


class LoadedRows(NamedTuple):
    """What a file gave: its rows, those left out, and the columns palate does not know."""

    rows: tuple[Question, ...]
    bad_rows: tuple[DataError, ...]
    unknown_columns: tuple[str, ...]
    reading: Reading | None = None
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
) -> LoadedRows:
    """Read a JSONL(.gz) or Parquet file under the row contract, or of a layout that is known.

    `columns` maps a name of the contract to the file's own, e.g. `{"chosen": "better"}`. The first
    bad row raises its `DataError` unless `skip_bad_rows`; then bad rows are left out and returned.
    Ids of users, rows, subsets or splits that differ in form alone raise it in any case. With
    `order_as_in_file` no date is read.
    """
    path, layout = Path(path), layout or LayoutOptions()
    mapped = Mapped(_read(path, max_line), columns or {})
    understood = understand(iter(mapped), str(path), layout)
    rows = understood.rows
    if layout.posts is not None:
        posts = posts_of(_read(layout.posts, max_line), str(layout.posts))
        rows = iter(WithPosts(rows, posts, str(layout.posts)))
    loaded = collect(
        rows, str(path), subset or stem(path.name), skip_bad_rows=skip_bad_rows,
        order_as_in_file=order_as_in_file,
    )  # fmt: skip
    mapped.check(str(path))
    if understood.numbered:
        LOG.info("%s: rows have no id: each is named by its number", path)
    return loaded._replace(reading=understood.reading, numbered=understood.numbered)


def stem(name: str) -> str:
    """Return a file's name without the ending of its format.

    >>> stem("wine.v2.jsonl.gz")
    'wine.v2'
    """
    for ending in sorted(FORMATS, key=len, reverse=True):
        if name.endswith(ending):
            return name.removesuffix(ending)
    return name


def collect(
    rows: Iterable[tuple[int, Any]],
    source: str,
    subset: str,
    *,
    skip_bad_rows: bool,
    order_as_in_file: bool = False,
) -> LoadedRows:
    """Check numbered rows one by one; duplicate ids are bad rows too.

    Posts that hold their row's question are left out, which is logged with their number; so is
    where dates do not give the order.
    """
    questions: list[Question] = []
    leaking: list[str] = []
    bad: list[DataError] = []
    first_line: dict[str, int] = {}
    unknown: set[str] = set()
    names = Names()
    wrapped = 0
    partly_dated = 0
    for line, row in rows:
        try:
            fields: list[str] = []
            checked = _row(row)
            wrapped += _one_side_wrapped(checked)
            question = read_question(
                tidied(checked), subset=subset, left_out=fields,
                order_as_in_file=order_as_in_file,
            )  # fmt: skip
            if (used := first_line.get(question.id)) is not None:
                raise DataError(f"{question.id!r} was used in row {used}", field="id")
        except DataError as error:
            named = DataError(error.problem, file=source, line=line, field=error.field)
            if not skip_bad_rows:
                raise named from None
            bad.append(named)
            continue
        first_line[question.id] = line
        _note_names(question, names, source, line)
        partly_dated += len({post.date is None for post in question.profile}) > 1
        unknown.update(question.extra)
        leaking += [f"row {line}, {name}" for name in fields]
        questions.append(question)
    if not questions:
        first = f": {len(bad)} bad, the first in row {bad[0].line}" if bad else ""
        why = f" ({bad[0].problem})" if bad else ""
        field = bad[0].field if bad else None
        raise DataError(f"holds no usable row{first}{why}", file=source, field=field)
    if leaking:
        LOG.warning(
            "%s: %d posts that hold their row's question are left out (the first: %s)",
            source, len(leaking), leaking[0],
        )  # fmt: skip
    if partly_dated:
        LOG.warning(
            "%s: in %d profiles some posts have no date: there the order of the file counts, "
            "oldest first", source, partly_dated,
        )  # fmt: skip
    if order_as_in_file:
        LOG.warning(
            "%s: dates are not read (--order-as-in-file): posts and choices stand as in the file, "
            "oldest first", source,
        )  # fmt: skip
    if wrapped >= max(WRAPPED * len(questions), 2):
        LOG.warning(
            "%s: in %d of %d rows one response alone stands in brackets, as a list of one text: "
            "a scorer can tell the two by that", source, wrapped, len(questions),
        )  # fmt: skip
    return LoadedRows(tuple(questions), tuple(bad), tuple(sorted(unknown)))


def _note_names(question: Question, names: Names, source: str, line: int) -> None:
    mirror_of = question.mirror_of if isinstance(question, PreferencePair) else None
    in_use = {
        "user": question.user_id, "subset": question.subset, "split": question.split or "",
    }  # fmt: skip
    try:
        names.add("row", question.id, f"row {line}")
        names.add("row", mirror_of or question.id, f"`mirror_of` of row {line}")
        for what, name in in_use.items():
            names.add(what, name, f"row {line}")
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


def _read(path: Path, max_line: int) -> Iterator[tuple[int, Any]]:
    if not path.is_file():
        what = "is a directory; expected a file" if path.is_dir() else "no such file"
        raise DataError(what, file=str(path))
    if path.name.endswith((".jsonl", ".jsonl.gz")):
        return read_jsonl(path, max_line=max_line)
    if path.suffix == ".parquet":
        return read_parquet(path)
    raise DataError(f"unknown format; expected one of {', '.join(FORMATS)}", file=str(path))
