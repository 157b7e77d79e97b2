"""The database of a study's answers: one writing connection, and readers of their own."""

from __future__ import annotations

import base64
import hmac
import secrets
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from hashlib import sha256
from importlib.resources import files
from pathlib import Path

from palate.errors import ResourceError, RunError, writing

FILE = "answers.sqlite"
BUSY = 10.0
"""Seconds that a transaction waits for another process's."""
SETTINGS = ("journal_mode = WAL", "synchronous = FULL", "secure_delete = ON")


class Database:
    """The writing connection of this process; threads take turns, a transaction each."""

    def __init__(self, folder: Path, plan: str) -> None:
        """Open it, or make it; raises `RunError` where it is another plan's or no database."""
        self.path, self._lock = folder / FILE, threading.Lock()
        with writing(self.path), _problems(self.path):
            self.path.touch(mode=0o600)
            # Autocommit: a transaction begins where it is said, and with the right to write.
            self.connection = sqlite3.connect(
                self.path, BUSY, isolation_level=None, check_same_thread=False
            )
            for setting in SETTINGS:
                self.connection.execute(f"PRAGMA {setting}")
            schema = files(__package__) / "schema.sql"
            self.connection.executescript(schema.read_text(encoding="utf-8"))
        with self.transaction() as db:
            given = [("plan", plan), ("secret", secrets.token_hex(32))]
            db.executemany("INSERT OR IGNORE INTO study VALUES (?, ?)", given)
            _need_plan(db, self.path, plan)

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Give the connection for a block: all of it is saved, or nothing and `ResourceError`."""
        with self._lock, _problems(self.path, "not saved"):
            try:
                self.connection.execute("BEGIN IMMEDIATE")
                yield self.connection
                self.connection.execute("COMMIT")
            except BaseException:
                # A full disk has ended the transaction already: a second rollback would raise.
                if self.connection.in_transaction:
                    with suppress(sqlite3.Error):
                        self.connection.execute("ROLLBACK")
                raise

    def truncate_log(self) -> None:
        """Empty the write-ahead log, where deleted bytes stay; raises `ResourceError`."""
        with self._lock:
            busy, *_ = self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if busy:
            raise ResourceError(
                f"{self.path}-wal: another program reads it, so it still holds what was deleted; "
                "end that program, then forget the same once more"
            )

    def close(self) -> None:
        """Close the connection when the last transaction has ended."""
        with self._lock:
            self.connection.close()


@contextmanager
def reading(folder: Path, plan: str) -> Iterator[sqlite3.Connection]:
    """Give a connection that sees one state and writes nothing; raises as `Database` does."""
    path = folder / FILE
    if not path.exists():
        Database(folder, plan).close()
    uri = f"{path.resolve().as_uri()}?mode=ro"
    with _problems(path), closing(sqlite3.connect(uri, BUSY, isolation_level=None, uri=True)) as db:
        db.execute("BEGIN")
        _need_plan(db, path, plan)
        yield db


def value_of(db: sqlite3.Connection, name: str) -> str | None:
    """Return what is kept of the study under a name."""
    row = db.execute("SELECT value FROM study WHERE name = ?", (name,)).fetchone()
    return row and str(row[0])


def arrival_token(db: sqlite3.Connection, arrival: str) -> str:
    """Return the token of who arrives under this id, always the same; the id is not kept."""
    secret = bytes.fromhex(value_of(db, "secret") or "")
    given = hmac.digest(secret, arrival.encode("utf-8", "surrogatepass"), "sha256")
    return base64.urlsafe_b64encode(given[:24]).decode()


def hashed(token: str) -> str:
    """Return all that is kept of a token."""
    return sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def _need_plan(db: sqlite3.Connection, path: Path, plan: str) -> None:
    if value_of(db, "plan") != plan:
        raise RunError(f"{path}: holds answers to another plan; plan a new study")


@contextmanager
def _problems(path: Path, what: str = "cannot be read") -> Iterator[None]:
    try:
        yield
    except sqlite3.DatabaseError as error:
        kind = ResourceError if isinstance(error, sqlite3.OperationalError) else RunError
        raise kind(f"{path}: {what} ({error})") from error
