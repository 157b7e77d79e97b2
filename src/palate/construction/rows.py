"""Rows of a source as they are read, field by field; counted; on disk meanwhile; as written.

`palate.data.rows` reads rows of the contract and refuses a number for a text. Sources are dumps of
others: here a number is a text, and white space alone is none.

A stage has no file of its own. What its work costs is kept where that is computed: a policy's
answers by prompt, ratings and vectors by what they are of. So a build that was killed and is called
again reads the same rows in the same order, and computes none of that twice.
"""

from __future__ import annotations

import gzip
import hashlib
import re
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeVar

from palate.data import SURROGATE, as_mapping
from palate.errors import DataError, UsageError, writing
from palate.files import whole_file
from palate.records import Record, date_text
from palate.records.dates import EPOCH
from palate.seeding import canonical_json

DAY = re.compile(r"(\d{4}-\d\d-\d\d) ")
ENDINGS = (".jsonl", ".jsonl.gz")
CACHE_KIB = 16 * 2**10
R = TypeVar("R")
S = TypeVar("S")


def text_of(row: Mapping[str, Any], name: str) -> str:
    """Return a text; raises `DataError` where it is missing, empty or no Unicode."""
    text = possible_text(row, name)
    if not text:
        raise DataError("expected a text, which is missing or empty", field=name)
    return text


def possible_text(row: Mapping[str, Any], name: str) -> str:
    """Return a text, empty where it is missing; raises `DataError` for what is no text."""
    value = row.get(name)
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise DataError(f"expected a text, got {type(value).__name__}", field=name)
    text = str(value)
    if SURROGATE.search(text):
        raise DataError("holds half a surrogate pair; not Unicode text", field=name)
    return text if text.strip() else ""


def date_of(row: Mapping[str, Any]) -> str | None:
    """Return what `date` or `year` holds as text, ISO's with a T; None where there is nothing.

    >>> date_of({"date": "2012-05-04 10:00"}), date_of({"year": 2007}), date_of({"date": None})
    ('2012-05-04T10:00', '2007', None)
    """
    name = "date" if row.get("date") else "year"
    try:
        text = date_text(row.get(name))
    except DataError as error:
        raise error.at(field=name) from None
    return None if text is None else DAY.sub(r"\1T", text.strip(), count=1)


def read_each(
    path: Path, rows: Iterable[tuple[int, Any]], read: Callable[[Mapping[str, Any], Path, int], S]
) -> Iterator[S | DataError]:
    """Yield what a function makes of each row, its file and its line, or the error at that line."""
    for line, row in rows:
        try:
            yield read(as_mapping(row), path, line)
        except DataError as error:
            yield error.at(path, line)


def hash_of_file(path: Path) -> str:
    """Return the SHA-256 of a file's bytes."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def check_output(path: Path, flag: str = "-o") -> None:
    """Raise `UsageError` unless rows can be written under this name."""
    if not path.name.endswith(ENDINGS):
        raise UsageError(f"{flag} {path}: expected a file that ends in {' or '.join(ENDINGS)}")
    if path.is_dir():
        raise UsageError(f"{flag} {path}: is a folder; expected a file")


class RowWriter:
    """Writes one row a line."""

    def __init__(self, stream: BinaryIO | gzip.GzipFile) -> None:
        self._stream = stream

    def write(self, row: Mapping[str, Any]) -> None:
        """Write a row."""
        self._stream.write(canonical_json(row).encode() + b"\n")


@contextmanager
def rows_file(path: Path) -> Iterator[RowWriter]:
    """Give a writer of a whole file, gzipped by its name; the same rows give the same bytes."""
    with writing(path), whole_file(path) as stream:
        if path.suffix == ".gz":
            with gzip.GzipFile("", "wb", fileobj=stream, mtime=0) as packed:
                yield RowWriter(packed)
        else:
            yield RowWriter(stream)


class RowStore:
    """Tables in a private database on disk; a failure is a `sqlite3.Error`.

    SQLite opens a database without a name in a temporary file that the system takes away with the
    process, so that a killed build leaves nothing; `TMPDIR` says where it lies. All is one
    transaction, which is never written out.
    """

    def __init__(self, tables: str) -> None:
        # An iterator over its rows may be closed by another thread's collector.
        self.db = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        self.db.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
        self.db.execute("PRAGMA journal_mode = OFF")
        self.run_script(tables)

    def run_script(self, statements: str) -> None:
        """Make tables, or indexes of what is there."""
        self.db.executescript(statements)
        self.db.execute("BEGIN")

    def put(self, table: str, row: Mapping[str, object]) -> int | None:
        """Add a row, and return its number; None where one of its name is there."""
        columns, marks = ", ".join(row), ", ".join("?" * len(row))
        statement = f"INSERT OR IGNORE INTO {table} ({columns}) VALUES ({marks})"
        new = self.db.execute(statement, (*row.values(),))
        return new.lastrowid if new.rowcount else None

    def first(self, query: str, *values: object) -> Any:
        """Return the first row of a query; None where there is none."""
        return self.db.execute(query, values).fetchone()

    def rows(self, query: str, *values: object) -> list[Any]:
        """Return all rows of a query, so that others may be changed while these are walked."""
        return self.db.execute(query, values).fetchall()

    def close(self) -> None:
        """Take the file away."""
        self.db.close()


def microseconds(moment: datetime) -> int:
    """Return how long after 1970 a moment is."""
    return (moment - EPOCH) // timedelta(microseconds=1)


class Dropped(NamedTuple):
    """The outcome of a row that does not go on."""

    reason: str


class StageCounts(Record):
    """How many rows a stage read, kept and dropped; what was read is one of both."""

    stage: str
    of: str
    """What its rows are, such as `test rows`."""
    n_read: int
    n_kept: int
    dropped: Mapping[str, int]
    """By reason."""


class Stage:
    """Counts what becomes of rows: over all its calls, those named in `reasons` first.

    >>> stage = Stage("words", "answers")
    >>> answers = ["yes", "of course", "no"]
    >>> list(stage.leave_out(answers, lambda text: None if " " in text else "one word"))
    ['of course']
    >>> stage.counts.n_read, dict(stage.counts.dropped)
    (3, {'one word': 2})
    """

    def __init__(self, name: str, of: str, reasons: Iterable[str] = ()) -> None:
        self.name, self.of = name, of
        self._kept, self._dropped = 0, Counter(dict.fromkeys(reasons, 0))

    def goes_on(self, reason: str | None = None) -> bool:
        """Count a row, with the reason to drop it if there is one; return whether it goes on."""
        if reason:
            self._dropped[reason] += 1
        else:
            self._kept += 1
        return not reason

    def run(self, rows: Iterable[R], work: Callable[[R], S | Dropped]) -> Iterator[S]:
        """Yield what a function makes of each row that goes on."""
        for row in rows:
            outcome = work(row)
            if isinstance(outcome, Dropped):
                self.goes_on(outcome.reason)
            elif self.goes_on():
                yield outcome

    def leave_out(self, rows: Iterable[R], reason: Callable[[R], str | None]) -> Iterator[R]:
        """Yield the rows for which a function gives no reason."""
        return (row for row in rows if self.goes_on(reason(row)))

    @property
    def counts(self) -> StageCounts:
        """What became of the rows that were read until now."""
        dropped = {reason: n for reason, n in self._dropped.items() if n}
        n_read = self._kept + self._dropped.total()
        return StageCounts(
            stage=self.name, of=self.of, n_read=n_read, n_kept=self._kept, dropped=dropped
        )


def dropped_by_row(stages: Iterable[StageCounts], of: Iterable[str]) -> dict[str, dict[str, int]]:
    """Return how many of each sort of row were dropped for which reason, over all stages."""
    totals = {what: Counter[str]() for what in of}
    for stage in stages:
        totals[stage.of].update(stage.dropped)
    return {what: dict(reasons) for what, reasons in totals.items()}
