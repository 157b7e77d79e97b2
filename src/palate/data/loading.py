"""A file of questions or pairs: format by its ending, columns mapped, bad rows named."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from palate.data.jsonl import MAX_LINE, read_jsonl
from palate.data.parquet import read_parquet
from palate.data.rows import CHOICE, KNOWN, REQUIRED, read_question
from palate.errors import DataError, UsageError
from palate.records import DistinctNames, PreferencePair, Question
from palate.seeding import canonical_json

LOG = logging.getLogger("palate")
FORMATS = (".jsonl", ".jsonl.gz", ".parquet")


class LoadedRows(NamedTuple):
    """What a file gave: its rows, those left out, and the columns palate does not know."""

    rows: tuple[Question, ...]
    bad_rows: tuple[DataError, ...]
    unknown_columns: tuple[str, ...]


def load_rows(
    path: Path | str,
    *,
    subset: str | None = None,
    columns: Mapping[str, str] | None = None,
    skip_bad_rows: bool = False,
    order_as_in_file: bool = False,
    max_line: int = MAX_LINE,
) -> LoadedRows:
    """Read a JSONL(.gz) or Parquet file under the row contract.

    `columns` maps a name of the contract to the file's own, e.g. `{"chosen": "better"}`. The first
    bad row raises its `DataError` unless `skip_bad_rows`; then bad rows are left out and returned.
    Ids of users, rows, subsets or splits that differ in form alone raise it in any case. With
    `order_as_in_file` no date is read.
    """
    path = Path(path)
    rows = _read(path, max_line)
    default = subset or stem(path.name)
    return collect(
        rows, str(path), default, columns or {}, skip_bad_rows=skip_bad_rows,
        order_as_in_file=order_as_in_file,
    )  # fmt: skip


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
    columns: Mapping[str, str],
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
    unmet = dict(columns)
    names = DistinctNames()
    partly_dated = 0
    for line, row in rows:
        if unmet and isinstance(row, Mapping):
            unmet = {ours: theirs for ours, theirs in unmet.items() if theirs not in row}
        try:
            fields: list[str] = []
            question = read_question(
                _mapped(row, columns), subset=subset, left_out=fields,
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
    for ours, theirs in unmet.items():
        raise DataError(f"no row has {theirs!r} (from --map {ours}={theirs})", file=source,
                        field=ours)  # fmt: skip
    return LoadedRows(tuple(questions), tuple(bad), tuple(sorted(unknown)))


def _note_names(question: Question, names: DistinctNames, source: str, line: int) -> None:
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


def parse_columns(pairs: Iterable[str]) -> dict[str, str]:
    """Read `--map chosen=better` flags.

    >>> parse_columns(["chosen=better", "question=prompt"])
    {'chosen': 'better', 'question': 'prompt'}
    """
    columns: dict[str, str] = {}
    for text in pairs:
        ours, equals, theirs = text.partition("=")
        if not equals or not theirs or ours not in KNOWN:
            known = ", ".join(sorted(KNOWN))
            raise UsageError(f"--map {text}: write palate's column=your column (one of {known})")
        columns[ours] = theirs
    return columns


def content_hash(rows: Iterable[Question]) -> str:
    """Return the hash of the rows' content, in their order."""
    running = hashlib.sha256()
    for row in rows:
        known = canonical_json(row.to_row())
        # Columns palate does not know may hold anything: bytes, dates, NaN.
        extra = json.dumps(dict(row.extra), sort_keys=True, default=repr)
        running.update(f"{known}\n{extra}\n".encode())
    return running.hexdigest()


def _mapped(row: object, columns: Mapping[str, str]) -> Mapping[str, Any]:
    if isinstance(row, DataError):
        raise row
    if not isinstance(row, Mapping):
        raise DataError(f"expected an object, got {type(row).__name__}")
    mapped = dict(row)
    for column, source in columns.items():
        if source not in row:
            if column in (*REQUIRED, *CHOICE):
                raise DataError(
                    f"no column {source!r} (from --map {column}={source})", field=column
                )
            mapped.pop(column, None)
            continue
        mapped[column] = row[source]
        if source not in columns and source not in KNOWN:
            mapped.pop(source, None)
    return mapped


def _read(path: Path, max_line: int) -> Iterator[tuple[int, Any]]:
    if not path.is_file():
        what = "is a directory; expected a file" if path.is_dir() else "no such file"
        raise DataError(what, file=str(path))
    if path.name.endswith((".jsonl", ".jsonl.gz")):
        return read_jsonl(path, max_line=max_line)
    if path.suffix == ".parquet":
        return read_parquet(path)
    raise DataError(f"unknown format; expected one of {', '.join(FORMATS)}", file=str(path))
