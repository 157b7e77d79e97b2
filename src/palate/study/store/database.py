"""The database of a study's answers: one writing connection, and readers of their own."""

from __future__ import annotations

import base64
import hmac
import secrets
import sqlite3
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Literal

from palate.errors import ResourceError, RunError, writing

FILE = "answers.sqlite"
BUSY = 10.0
"""Seconds that a transaction waits for another process's."""
PAUSE = 0.001
SETTINGS = ("journal_mode = WAL", "synchronous = FULL", "secure_delete = ON")


class Database:
    """The writing connection of this process; threads take turns, a transaction each."""

    def __init__(self, folder: Path, plan: str) -> None:
        """Open it, or make it; raises `RunError` where it is another plan's or no database."""
        self.path, self._lock = folder / FILE, threading.Lock()
        with writing(self.path), _problems(self.path):
            if not self.path.exists():
                # Made beside and linked: it is there whole, also where two processes make it.
                with tempfile.TemporaryDirectory(dir=folder) as scratch, suppress(FileExistsError):
                    with closing(_opened(new := Path(scratch) / FILE)) as db:
                        _fill(db, plan)
                    new.chmod(0o600)
                    self.path.hardlink_to(new)
            self.connection = _opened(self.path)
            _need_plan(self.connection, self.path, plan)

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Give the connection for a block: all of it is saved, or nothing and `ResourceError`."""
        with self._lock, _problems(self.path, "not saved"):
            try:
                self._in_turn("BEGIN IMMEDIATE")
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
        with self._lock, _problems(self.path, "not emptied"):
            busy = self._in_turn("PRAGMA wal_checkpoint(TRUNCATE)")
        if busy:
            raise ResourceError(
                f"{self.path}-wal: another program reads it, so it still holds what was deleted; "
                "end that program, then forget the same once more"
            )

    def _in_turn(self, statement: str) -> bool:
        """Run it when no other process is in the way, and return whether one still is.

        SQLite asks ten times a second. While a server saves without pause, that is never its turn.
        """
        self.connection.execute("PRAGMA busy_timeout = 0")
        until = time.monotonic() + BUSY
        while True:
            try:
                busy, *_ = self.connection.execute(statement).fetchone() or (0,)
                if not busy or time.monotonic() > until:
                    return bool(busy)
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                    raise
            time.sleep(PAUSE)

    def close(self) -> None:
        """Close the connection when the last transaction has ended."""
        with self._lock:
            self.connection.close()


@contextmanager
def reading(folder: Path, plan: str) -> Iterator[sqlite3.Connection]:
    """Give a connection that sees one state and writes nothing; raises as `Database` does."""
    path = folder / FILE
    there, uri = path.exists(), f"{path.resolve().as_uri()}?mode=ro"
    where = uri if there else ":memory:"
    with (
        _problems(path),
        closing(sqlite3.connect(where, BUSY, isolation_level=None, uri=there)) as db,
    ):
        if not there:
            _fill(db, plan)
        db.execute("BEGIN")
        _need_plan(db, path, plan)
        yield db


def value_of(db: sqlite3.Connection, name: str) -> str | None:
    """Return what is kept of the study under a name."""
    row = db.execute("SELECT value FROM study WHERE name = ?", (name,)).fetchone()
    return row and str(row[0])


def token_of(db: sqlite3.Connection, kind: Literal["link", "arrival"], name: str) -> str:
    """Return the token of a rater's link, or of who arrives under an id, which is not kept."""
    secret = bytes.fromhex(value_of(db, "secret") or "")
    # What stands before the zero tells both apart, whatever the id.
    given = hmac.digest(secret, f"{kind}\0{name}".encode("utf-8", "surrogatepass"), "sha256")
    return base64.urlsafe_b64encode(given[:24]).decode()


def hashed(token: str) -> str:
    """Return all that is kept of a token."""
    return sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def _opened(path: Path) -> sqlite3.Connection:
    # Autocommit: a transaction begins where it is said, and with the right to write.
    db = sqlite3.connect(path, BUSY, isolation_level=None, check_same_thread=False)
    for setting in SETTINGS:
        db.execute(f"PRAGMA {setting}")
    return db


def _fill(db: sqlite3.Connection, plan: str) -> None:
    db.executescript((files(__package__) / "schema.sql").read_text(encoding="utf-8"))
    given = [("plan", plan), ("secret", secrets.token_hex(32))]
    db.executemany("INSERT INTO study VALUES (?, ?)", given)


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
