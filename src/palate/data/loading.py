"""Files of questions or pairs: columns mapped, bad rows named."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from palate.data.csv import STRUCTURED
from palate.data.files import read_rows, stem
from palate.data.rows import CHOICE, KNOWN, REQUIRED, read_question
from palate.data.streams import MAX_LINE
from palate.errors import DataError, UsageError
from palate.records import Question
from palate.seeding import canonical_json

LOG = logging.getLogger("palate")


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
    max_line: int = MAX_LINE,
    files: Sequence[Path] | None = None,
) -> LoadedRows:
    """Read a file, a folder of shards, or the `files` that a path stands for.

    `columns` maps a name of the contract to the file's own, e.g. `{"chosen": "better"}`. The first
    bad row raises its `DataError` unless `skip_bad_rows`; then bad rows are left out and returned.
    """
    columns = columns or {}
    structured = {columns.get(name, name) for name in STRUCTURED}
    rows = read_rows(path, max_line, files=files, structured=structured)
    default = subset or stem(Path(path).name)
    return collect(
        rows, str(path), default, columns, skip_bad_rows=skip_bad_rows, place=rows.place
    )  # fmt: skip


def collect(
    rows: Iterable[tuple[int, Any]],
    source: str,
    subset: str,
    columns: Mapping[str, str],
    *,
    skip_bad_rows: bool,
    place: Callable[[int], tuple[str, int]] | None = None,
) -> LoadedRows:
    """Check numbered rows one by one; duplicate ids are bad rows too.

    `place` gives the file and line of a number, where they are not the source and the number.

    Posts that hold their row's question are left out, which is logged with their number.
    """
    questions: list[Question] = []
    leaking: list[str] = []
    bad: list[DataError] = []
    numbers: dict[str, int] = {}
    unknown: set[str] = set()
    unmet = dict(columns)
    place = place or (lambda number: (source, number))

    def in_words(number: int) -> str:
        file, line = place(number)
        return f"row {line}" if file == source else f"{file}:{line}"

    for number, row in rows:
        if unmet and isinstance(row, Mapping):
            unmet = {ours: theirs for ours, theirs in unmet.items() if theirs not in row}
        try:
            fields: list[str] = []
            question = read_question(_mapped(row, columns), subset=subset, left_out=fields)
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
            source, len(leaking), leaking[0],
        )  # fmt: skip
    for ours, theirs in unmet.items():
        raise DataError(f"no row has {theirs!r} (from --map {ours}={theirs})", file=source,
                        field=ours)  # fmt: skip
    return LoadedRows(tuple(questions), tuple(bad), tuple(sorted(unknown)))


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
