"""All that a build must look up across its source."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from palate.construction.leaks import text_key
from palate.construction.private_database import microseconds, private_database
from palate.records.dates import Instant, instant_of
from palate.seeding import canonical_json

CANDIDATES = 100
"""Most texts of other authors among which one is drawn."""
TABLES = """
CREATE TABLE rows (
  n INTEGER PRIMARY KEY, split TEXT, id TEXT, user TEXT, question BLOB, text BLOB, date TEXT,
  start INTEGER, row TEXT, kept INTEGER, rejected TEXT, rejected_by TEXT, stage TEXT, reason TEXT
);
CREATE UNIQUE INDEX by_name ON rows (split, id, CASE split WHEN 'adapt' THEN user END);
CREATE TABLE in_test (what TEXT, key BLOB, PRIMARY KEY (what, key)) WITHOUT ROWID;
"""
INDEXES = """
CREATE INDEX by_question ON rows (question);
CREATE INDEX by_user ON rows (user, split, question, text);
CREATE INDEX by_split ON rows (split, kept, n);
"""


class RowKeys(NamedTuple):
    """A row by what other rows may share with it."""

    n: int
    user: str
    question: bytes
    text: bytes


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
        self.db = private_database(TABLES)

    def close(self) -> None:
        """Take the file away."""
        self.db.close()

    def add(self, row: dict[str, Any], name: str, source: str, date: str | None) -> int | None:
        """Keep a row for now; None where a row of this name (of adapt: of this user) is there."""
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
        return new.lastrowid if new.rowcount else None

    def index(self) -> None:
        """Make what is looked up from now on quick to find."""
        self.db.executescript(INDEXES)
        self.db.execute("BEGIN")

    def drop(self, n: int, stage: str, reason: str) -> None:
        """Leave a row out."""
        self.db.execute(
            "UPDATE rows SET kept = 0, stage = ?, reason = ? WHERE n = ?", (stage, reason, n)
        )

    def is_repeated(self, row: RowKeys, split: str) -> bool:
        """Tell whether an earlier row of the split that is kept has question, text and user."""
        earlier = self.db.execute(
            "SELECT 1 FROM rows WHERE user = ? AND split = ? AND question = ? AND text = ?"
            " AND kept AND n < ? LIMIT 1",
            (row.user, split, row.question, row.text, row.n),
        )
        return earlier.fetchone() is not None

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

    def keys(self, split: str) -> Iterator[RowKeys]:
        """Yield the keys of the rows that are kept."""
        for n in self.numbers(split):
            yield RowKeys(
                *self.db.execute(
                    "SELECT n, user, question, text FROM rows WHERE n = ?", (n,)
                ).fetchone()
            )

    def rows(self, split: str) -> Iterator[Spooled]:
        """Yield the rows that are kept."""
        return map(self.get, self.numbers(split))

    def by_user(self, split: str) -> Iterator[Spooled]:
        """Yield the rows that are kept user by user, both in the order of the source."""
        users = self.db.execute(
            "SELECT user FROM rows WHERE split = ? AND kept GROUP BY user ORDER BY min(n)", (split,)
        )
        for (user,) in users.fetchall():
            yield from self.of_user(split, user)

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

    def keep_test_keys(self) -> None:
        """Note users, questions and every text of the test rows, which adapt rows are held to."""
        for what in ("user", "question"):
            self.db.execute(
                f"INSERT INTO in_test SELECT DISTINCT '{what}', {what} FROM rows"
                " WHERE split = 'test' AND kept"
            )
        for n in self.numbers("test"):
            texts = self.db.execute(
                "SELECT json_extract(row, '$.chosen'), rejected FROM rows WHERE n = ?", (n,)
            ).fetchone()
            self.db.executemany(
                "INSERT OR IGNORE INTO in_test VALUES ('text', ?)",
                [(text_key(text),) for text in texts],
            )

    def is_in_test(self, what: str, key: str | bytes) -> bool:
        """Tell whether a test row is of this `user`, has this `question` or holds this `text`."""
        rows = self.db.execute("SELECT 1 FROM in_test WHERE what = ? AND key = ?", (what, key))
        return rows.fetchone() is not None

    def finished(self, split: str) -> Iterator[dict[str, Any]]:
        """Yield the rows of a split with their rejected text, and with whose that is."""
        for n in self.numbers(split):
            row, rejected, by = self.db.execute(
                "SELECT row, rejected, rejected_by FROM rows WHERE n = ?", (n,)
            ).fetchone()
            columns = json.loads(row)
            del columns["source"]
            if "attribution" in columns and (other := self._attribution(n, rejected)):
                columns["attribution"] += f"; rejected: {other}"
            yield {**columns, "rejected": rejected, "rejected_by": by}

    def _attribution(self, n: int, rejected: str) -> str:
        other = self.db.execute(
            "SELECT json_extract(other.row, '$.attribution') FROM rows"
            " JOIN rows AS other ON other.question = rows.question AND other.user <> rows.user"
            " WHERE rows.n = ? AND other.text = ? ORDER BY other.n LIMIT 1",
            (n, text_key(rejected)),
        ).fetchone()
        return str(other[0]).rpartition("; answer: ")[2] if other and other[0] else ""

    def outcomes(self) -> Iterator[dict[str, str | None]]:
        """Yield of every row its names, and which stage left it out for which reason."""
        listed = self.db.execute(
            "SELECT json_extract(row, '$.id') AS id, split, user, rejected_by, stage, reason"
            " FROM rows ORDER BY n"
        )
        names = [column for column, *_ in listed.description]
        for line in listed:
            yield dict(zip(names, line, strict=True))


def _microseconds(date: str | None) -> int | None:
    instant = instant_of(date)
    return None if instant is None else microseconds(instant.start)


def _spooled(line: tuple[Any, ...]) -> Spooled:
    n, user, question, text, date, row = line
    columns = json.loads(row)
    return Spooled(n, user, question, text, date, columns, columns.pop("source"))
