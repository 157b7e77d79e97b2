"""The database of a study's answers: one writing connection, and readers of their own."""

from __future__ import annotations

import secrets
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from palate.errors import ResourceError, RunError, writing

FILE = "answers.sqlite"
BUSY = 10.0
"""Seconds that a transaction waits for another process's."""
TABLES = (
    "CREATE TABLE study (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
    "CREATE TABLE names (rater TEXT PRIMARY KEY)",  # ever given: no other rater gets one again
    "CREATE TABLE raters (rater TEXT PRIMARY KEY, place INTEGER NOT NULL, token TEXT UNIQUE, "
    "arrived INTEGER NOT NULL, seen REAL NOT NULL, consented INTEGER NOT NULL DEFAULT 0, "
    "traits TEXT, practice INTEGER NOT NULL DEFAULT 0, ended INTEGER NOT NULL DEFAULT 0, "
    "closed INTEGER NOT NULL DEFAULT 0)",
    # `facts`: what an answer's row says of its item, so that it stays when the item is forgotten.
    "CREATE TABLE entries (rater TEXT, position INTEGER, item TEXT NOT NULL, "
    "swapped INTEGER NOT NULL, again INTEGER NOT NULL, facts TEXT NOT NULL, "
    "PRIMARY KEY (rater, position))",
    "CREATE TABLE answers (rater TEXT, position INTEGER, choice TEXT NOT NULL, "
    "ratings TEXT NOT NULL, seconds REAL, date TEXT NOT NULL, changed INTEGER NOT NULL, "
    "PRIMARY KEY (rater, position))",
    "CREATE TABLE changes (rater TEXT, position INTEGER, choice TEXT NOT NULL, "
    "ratings TEXT NOT NULL, seconds REAL, date TEXT NOT NULL)",
)
OF_A_RATER = ("raters", "entries", "answers", "changes")


class Database:
    """The writing connection of this process; threads take turns, a transaction each."""

    def __init__(self, folder: Path, plan: str) -> None:
        """Open it, or make it; raises `RunError` where it is another plan's or no database."""
        self.path = folder / FILE
        self._lock = threading.Lock()
        with writing(self.path, ResourceError):
            self.path.touch(mode=0o600)
        try:
            # Autocommit: a transaction begins where it is said, and with the lock to write.
            self.connection = sqlite3.connect(
                self.path, timeout=BUSY, isolation_level=None, check_same_thread=False
            )
            self.connection.execute("PRAGMA journal_mode = WAL")
            self.connection.execute("PRAGMA synchronous = FULL")
            self.connection.execute("PRAGMA secure_delete = ON")
        except sqlite3.DatabaseError as error:
            raise _unreadable(self.path, error) from error
        try:
            with self.transaction() as db:
                if not db.execute("SELECT 1 FROM sqlite_master").fetchone():
                    for table in TABLES:
                        db.execute(table)
                    given = [("plan", plan), ("secret", secrets.token_hex(32))]
                    db.executemany("INSERT INTO study VALUES (?, ?)", given)
                check_plan(db, self.path, plan)
        except BaseException:
            self.connection.close()
            raise

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Give the connection until the block ends, which commits; raises `ResourceError`.

        Where the block raises, nothing of it stays.
        """
        with self._lock:
            try:
                self.connection.execute("BEGIN IMMEDIATE")
                yield self.connection
                self.connection.execute("COMMIT")
            except BaseException as error:
                # A full disk has ended the transaction already: a second rollback would raise.
                if self.connection.in_transaction:
                    with suppress(sqlite3.Error):
                        self.connection.execute("ROLLBACK")
                if isinstance(error, sqlite3.OperationalError):
                    raise ResourceError(f"{self.path}: not saved ({error})") from error
                raise

    def truncate_log(self, seconds: float = BUSY) -> None:
        """Empty the write-ahead log, in which deleted bytes stay; raises `ResourceError`."""
        until = time.monotonic() + seconds
        while True:
            with self._lock:
                busy = self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
            if not busy:
                return
            if time.monotonic() > until:
                raise ResourceError(
                    f"{self.path}-wal: still holds what was deleted, for another program reads it; "
                    "end that and forget the same again"
                )
            time.sleep(0.05)

    def close(self) -> None:
        """Close the connection when the last transaction has ended."""
        with self._lock:
            self.connection.close()


@contextmanager
def reading(folder: Path, plan: str) -> Iterator[sqlite3.Connection]:
    """Give a connection that sees one state and writes nothing; raises as `Database` does."""
    path = folder / FILE
    try:
        uri = f"{path.resolve().as_uri()}?mode=ro"
        with closing(sqlite3.connect(uri, BUSY, isolation_level=None, uri=True)) as db:
            db.execute("BEGIN")
            check_plan(db, path, plan)
            yield db
    except sqlite3.DatabaseError as error:
        raise _unreadable(path, error) from error


def check_plan(db: sqlite3.Connection, path: Path, plan: str) -> None:
    """Raise `RunError` where the answers are another plan's."""
    if value_of(db, "plan") != plan:
        raise RunError(f"{path}: holds answers to another plan; plan a new study")


def value_of(db: sqlite3.Connection, name: str) -> str | None:
    """Return what is kept of the study under a name."""
    row = db.execute("SELECT value FROM study WHERE name = ?", (name,)).fetchone()
    return None if row is None else str(row[0])


def _unreadable(path: Path, error: sqlite3.Error) -> RunError | ResourceError:
    kind = ResourceError if isinstance(error, sqlite3.OperationalError) else RunError
    return kind(f"{path}: cannot be read ({error})")
