"""The database of a study's answers, its one writer and its readers; and raters' sessions in it."""

from __future__ import annotations

import base64
import hmac
import json
import math
import secrets
import sqlite3
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Literal, NamedTuple

from palate.errors import DataError, ResourceError, RunError, UsageError, writing
from palate.records import Record, normal_form
from palate.study.records import DIMENSIONS, AnswerRow, Choice, ListEntry, Score, Study, StudyItem

FILE = "answers.sqlite"
BUSY = 10.0
"""Seconds that a transaction waits for another process's."""
PAUSE = 0.001
SETTINGS = ("journal_mode = WAL", "synchronous = FULL", "secure_delete = ON")
ADDED = {"plan", "contexts", "rows", "gold", "traits", "excluded"}
"""Fields of an answer's row that are added when it is read."""
LONGEST = 86_400.0
"""Seconds that an answer may have taken; a page left open overnight says no more."""
COPIED = {"pair", "kind", "asks", "expected", "category"}
"""Fields of an answer's row that are its item's."""


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
    there = (path := folder / FILE).exists()
    where = f"{path.resolve().as_uri()}?mode=ro" if there else ":memory:"
    connect = partial(sqlite3.connect, where, BUSY, isolation_level=None, uri=there)
    with _problems(path), closing(connect()) as db:
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
    name = normal_form(name)
    keyed = hmac.digest(secret, f"{kind}\0{name}".encode("utf-8", "surrogatepass"), "sha256")
    return base64.urlsafe_b64encode(keyed[:24]).decode()


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
    values = [("plan", plan), ("secret", secrets.token_hex(32))]
    db.executemany("INSERT INTO study VALUES (?, ?)", values)


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


class GivenAnswer(Record):
    """What a rater answered to one item; ratings of the first and the second answer."""

    choice: Choice
    ratings: Mapping[str, tuple[Score, Score]] = {}
    seconds: float | None = None


class RaterState(NamedTuple):
    """Where a rater stands; the next position is past the end where nothing is to be answered."""

    rater: str
    consented: bool
    traits: Mapping[str, str] | None
    practice: int
    answered: int
    total: int
    finished: bool
    next_position: int


class AskedEntry(NamedTuple):
    """One position of a rater's list; without its item, where that was forgotten."""

    entry: ListEntry
    item: StudyItem | None
    given: GivenAnswer | None


Session = list[tuple[ListEntry, GivenAnswer | None]]
Chooser = Callable[[str, Sequence[tuple[ListEntry, GivenAnswer | None]]], ListEntry | None]
"""What a collection asks next, of a rater's id and what was asked so far."""


class Sessions(NamedTuple):
    """The sessions of a study's raters, as one transaction of its database sees them."""

    db: sqlite3.Connection
    study: Study

    def session(self, rater: str, position: int | None = None) -> Session:
        """Return what a rater was asked, in order, with the answers; or one position of it."""
        session: Session = []
        where = "rater = ? AND position = ifnull(?, position) ORDER BY position"
        listed = f"SELECT item, swapped, again, answer FROM entries WHERE {where}"
        for item, swapped, again, answer in self.db.execute(listed, (rater, position)):
            row = json.loads(answer or "null")
            given = row and GivenAnswer(**{name: row[name] for name in GivenAnswer.model_fields})
            session.append((ListEntry(item=item, swapped=swapped, again=again), given))
        return session

    def state(self, rater: str) -> RaterState:
        """Return where a rater stands; raises `UsageError` for one that is not there."""
        columns = "consented, traits, practice, ended"
        row = self.db.execute(f"SELECT {columns} FROM raters WHERE rater = ?", (rater,)).fetchone()
        if row is None:
            raise UsageError(f"{rater}: the study has no such rater")
        consented, traits, practice, ended = row
        listed = "SELECT item, answer IS NULL FROM entries WHERE rater = ? ORDER BY position"
        session = list(enumerate(self.db.execute(listed, (rater,))))
        waiting = [k for k, (item, is_open) in session if is_open and item in self.study.items]
        answered = sum(not is_open for _, (_, is_open) in session)
        total = answered + len(waiting)
        if self.study.plan.mode == "collect" and not ended:
            total = max(total, self.study.plan.per_rater or 0)
        of_rater = bool(consented), json.loads(traits), practice
        following = waiting[0] if waiting else len(session)
        return RaterState(rater, *of_rater, answered, total, answered == total, following)

    def write_answer(
        self, rater: str, position: int, given: GivenAnswer, date: str | None = None, n: int = 0
    ) -> None:
        """Write an answer, unless the same stands there; another one goes to the changes.

        Who skips rates nothing; `n` is how often it was changed elsewhere. Raises `UsageError`
        where the item was forgotten, `DataError` for ratings that do not go with it.
        """
        ((entry, earlier),) = self.session(rater, position)
        item = self.study.items.get(entry.item)
        if item is None:
            raise UsageError(f"{rater}: the item at position {position} was forgotten")
        ratings = {} if given.choice == "skip" else dict(given.ratings)
        is_rated = self.study.plan.rated and item.asks == "better" and given.choice != "skip"
        wanted = DIMENSIONS if is_rated else ()
        if set(ratings) != set(wanted):
            raise DataError(f"expected {', '.join(wanted) or 'none'}", field="ratings")
        if earlier and (earlier.choice, earlier.ratings) == (given.choice, ratings):
            return
        place, where = (rater, position), "WHERE rater = ? AND position = ?"
        if earlier:
            before = f"SELECT rater, position, answer FROM entries {where}"
            self.db.execute(f"INSERT INTO changes {before}", place)
            n = self.db.execute(f"SELECT count(*) FROM changes {where}", place).fetchone()[0]
        seconds = given.seconds if given.seconds is None or math.isfinite(given.seconds) else None
        row = AnswerRow(
            **item.model_dump(include=COPIED),
            rater=rater,
            item=item.id,
            again=entry.again,
            changed=n,
            responses=self.study.responses_of[item.id],
            choice=given.choice,
            ratings=ratings,
            left="second" if entry.swapped else "first",
            seconds=seconds and min(max(seconds, 0.0), LONGEST),
            date=date or datetime.now(UTC).isoformat(timespec="seconds"),
        )
        answer = row.model_dump_json(exclude=ADDED)
        self.db.execute(f"UPDATE entries SET answer = ? {where}", (answer, *place))

    def write_traits(self, rater: str, traits: Mapping[str, str]) -> None:
        """Write what a rater said of themselves; raises `DataError` for no option of the plan."""
        options = {trait.name: trait.options for trait in self.study.plan.traits}
        for name, value in traits.items():
            if value not in options.get(name, ()):
                expected = " or ".join(options.get(name, ("no such trait",)))
                raise DataError(f"{name} = {value!r}: expected {expected}", field="traits")
        text = json.dumps(dict(traits))
        self.db.execute("UPDATE raters SET traits = ? WHERE rater = ?", (text, rater))

    def rater_name(self, place: int) -> str:
        """Return the name of who first takes a place."""
        return f"r{place + 1:0{max(2, len(str(self.study.plan.raters)))}d}"

    def planned(self, place: int) -> list[ListEntry]:
        """Return what a place is asked, less what was forgotten; nothing of a collection."""
        plan = self.study.plan
        listed = plan.lists[place] if plan.mode == "judge" else ()
        return [entry for entry in listed if entry.item in self.study.items]

    def free_places(self) -> dict[str, int]:
        """Return the places that nobody ever took, by the name of who will."""
        taken = {name for (name,) in self.db.execute("SELECT rater FROM raters")}
        names = {self.rater_name(place): place for place in range(self.study.plan.raters)}
        return {name: place for name, place in names.items() if name not in taken}

    def seat(
        self,
        name: str,
        place: int,
        entries: Iterable[ListEntry],
        token: str | None = None,
        arrived: float | None = None,
    ) -> None:
        """Give a rater a place, with its list or what is open of it."""
        values = (name, place, token and hashed(token), arrived is not None, arrived or 0)
        columns = "rater, place, token, arrived, seen"
        self.db.execute(f"INSERT INTO raters ({columns}) VALUES (?, ?, ?, ?, ?)", values)
        self.append(name, entries)

    def append(self, rater: str, entries: Iterable[ListEntry]) -> None:
        """Append to a rater's list."""
        length = "SELECT count(*) FROM entries WHERE rater = ?"
        (start,) = self.db.execute(length, (rater,)).fetchone()
        rows = [(rater, k, *entry.model_dump().values()) for k, entry in enumerate(entries, start)]
        self.db.executemany("INSERT INTO entries VALUES (?, ?, ?, ?, ?, NULL)", rows)
