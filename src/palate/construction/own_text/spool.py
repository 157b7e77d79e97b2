"""All that a build must look up across its source, in a private file on disk.

SQLite opens a database without a name in a temporary file that the system takes away with the
process, so that a killed build leaves nothing; `TMPDIR` says where it lies.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from datetime import timedelta
from typing import Any, NamedTuple

from palate.construction.own_text.leaks import text_key
from palate.records.dates import EPOCH, Instant, instant_of
from palate.seeding import canonical_json

CACHE_KIB = 16 * 2**10
CANDIDATES = 100
"""Most texts of other authors among which one is drawn."""
TABLES = """
CREATE TABLE rows (
  n INTEGER PRIMARY KEY, split TEXT, id TEXT, user TEXT, question BLOB, text BLOB, date TEXT,
  start INTEGER, row TEXT, kept INTEGER, rejected TEXT, rejected_by TEXT
);
CREATE UNIQUE INDEX by_name ON rows (split, id, CASE split WHEN 'adapt' THEN user END);
CREATE TABLE test_texts (key BLOB PRIMARY KEY) WITHOUT ROWID;
"""
INDEXES = """
CREATE INDEX by_question ON rows (question);
CREATE INDEX by_text ON rows (text) WHERE split = 'test';
CREATE INDEX by_user ON rows (user, split);
CREATE INDEX by_split ON rows (split, kept, n);
"""


class Spooled(NamedTuple):
    """A row on its way: `row` has the columns of the contract, without `rejected`."""

    n: int
    user: str
    question: bytes
    text: bytes
    date: str | None
    row: dict[str, Any]
    source: str

    @property
    def instant(self) -> Instant | None:
        """When it was written."""
        return instant_of(self.date)


class Spool:
    """Rows of both splits, found by user, by question and by text."""

    def __init__(self) -> None:
        self.db = sqlite3.connect("", isolation_level=None)
        self.db.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
        self.db.execute("PRAGMA journal_mode = OFF")
        self.db.executescript(TABLES)
        self.db.execute("BEGIN")

    def close(self) -> None:
        """Take the file away."""
        self.db.close()

    def add(self, row: dict[str, Any], name: str, source: str, date: str | None) -> bool:
        """Keep a row for now; False where a row of this name (of adapt: of this user) is there."""
        new = self.db.execute(
            "INSERT OR IGNORE INTO rows (split, id, user, question, text, date, start, row, kept)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, 1)",
            (
                row["split"],
                name,
                row["user_id"],
                text_key(source),
                text_key(row["chosen"]),
                date,
                _microseconds(date),
                canonical_json({"source": source, **row}),
            ),
        )
        return bool(new.rowcount)

    def index(self) -> None:
        """Make what is looked up from now on quick to find."""
        self.db.executescript(INDEXES)
        self.db.execute("BEGIN")

    def drop(self, numbers: list[int]) -> None:
        """Leave rows out."""
        self.db.executemany("UPDATE rows SET kept = 0 WHERE n = ?", [(n,) for n in numbers])

    def drop_repeated(self, split: str) -> int:
        """Leave out rows with question, text and user of an earlier row; return how many."""
        return self.db.execute(
            "UPDATE rows SET kept = 0 WHERE split = ? AND kept AND n NOT IN"
            " (SELECT min(n) FROM rows WHERE split = ? AND kept GROUP BY user, question, text)",
            (split, split),
        ).rowcount

    def drop_where(self, condition: str) -> int:
        """Leave out the adapt rows of which an SQL condition is true; return how many."""
        return self.db.execute(
            f"UPDATE rows SET kept = 0 WHERE split = 'adapt' AND kept AND ({condition})"
        ).rowcount

    def numbers(self, split: str, condition: str = "1") -> list[int]:
        """Return the numbers of the rows that are kept: adapt rows user by user, oldest first."""
        listed = self.db.execute(
            f"SELECT n FROM rows WHERE split = ? AND kept AND ({condition})"
            " ORDER BY min(n) OVER (PARTITION BY CASE split WHEN 'adapt' THEN user ELSE n END),"
            " CASE split WHEN 'adapt' THEN start END, n",
            (split,),
        )
        return [n for (n,) in listed]

    def counts(self, split: str) -> dict[str, int]:
        """Return rows, users and inputs of a split, and how many rows reject whose text."""
        rows, users, inputs, authors = self.db.execute(
            "SELECT count(*), count(DISTINCT user), count(DISTINCT question),"
            " total(rejected_by = 'others') FROM rows WHERE split = ? AND kept",
            (split,),
        ).fetchone()
        return {
            "rows": rows,
            "users": users,
            "inputs": inputs,
            "against_authors": int(authors),
            "against_model": rows - int(authors),
        }

    def users(self) -> list[str]:
        """Return the users of adapt rows that are kept, in the order of the source."""
        listed = self.db.execute(
            "SELECT user FROM rows WHERE split = 'adapt' AND kept GROUP BY user ORDER BY min(n)"
        )
        return [user for (user,) in listed]

    def of_user(self, split: str, user: str) -> list[Spooled]:
        """Return the rows of one user that are kept."""
        listed = self.db.execute(
            "SELECT n, user, question, text, date, row FROM rows"
            " WHERE split = ? AND user = ? AND kept ORDER BY n",
            (split, user),
        )
        return [_spooled(line) for line in listed.fetchall()]

    def get(self, n: int) -> Spooled:
        """Return a row."""
        return _spooled(
            self.db.execute(
                "SELECT n, user, question, text, date, row FROM rows WHERE n = ?", (n,)
            ).fetchone()
        )

    def other_texts(self, row: Spooled) -> Iterator[list[str]]:
        """Yield other users' texts on the same input by the hundred, those of rows left out too."""
        listed = self.db.execute(
            "SELECT json_extract(row, '$.chosen') FROM rows"
            " WHERE question = ? AND user <> ? AND text <> ? ORDER BY n",
            (row.question, row.user, row.text),
        )
        while page := listed.fetchmany(CANDIDATES):
            yield [text for (text,) in page]

    def is_shared(self, row: Spooled) -> bool:
        """Tell whether another user wrote the same words on the same input."""
        other = self.db.execute(
            "SELECT 1 FROM rows WHERE question = ? AND user <> ? AND text = ? LIMIT 1",
            (row.question, row.user, row.text),
        )
        return other.fetchone() is not None

    def reject(self, n: int, text: str, by: str) -> None:
        """Give a row its rejected text, and say whose it is."""
        self.db.execute("UPDATE rows SET rejected = ?, rejected_by = ? WHERE n = ?", (text, by, n))

    def keep_test_texts(self) -> None:
        """Note every text of the test rows, so that no adapt row holds one."""
        for n in self.numbers("test"):
            texts = self.db.execute(
                "SELECT json_extract(row, '$.chosen'), rejected FROM rows WHERE n = ?", (n,)
            ).fetchone()
            self.db.executemany(
                "INSERT OR IGNORE INTO test_texts VALUES (?)", [(text_key(text),) for text in texts]
            )

    def is_test_text(self, text: str) -> bool:
        """Tell whether a test row holds this text."""
        rows = self.db.execute("SELECT 1 FROM test_texts WHERE key = ?", (text_key(text),))
        return rows.fetchone() is not None

    def finished(self, split: str) -> Iterator[dict[str, Any]]:
        """Yield the rows of a split with their rejected text, and with whose that is."""
        for n in self.numbers(split):
            row, rejected, by = self.db.execute(
                "SELECT row, rejected, rejected_by FROM rows WHERE n = ?", (n,)
            ).fetchone()
            columns = json.loads(row)
            del columns["source"]
            yield {**columns, "rejected": rejected, "rejected_by": by}


def _microseconds(date: str | None) -> int | None:
    instant = instant_of(date)
    return None if instant is None else (instant.start - EPOCH) // timedelta(microseconds=1)


def _spooled(line: tuple[Any, ...]) -> Spooled:
    n, user, question, text, date, row = line
    columns = json.loads(row)
    return Spooled(n, user, question, text, date, columns, columns.pop("source"))
