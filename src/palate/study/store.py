"""The store of a study's answers, as its pages use it, and what is forgotten of it."""

from __future__ import annotations

import json
import re
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from palate.errors import RunError, UsageError, writing
from palate.files import ENDING, write_whole
from palate.records import user_key
from palate.seeding import canonical_json
from palate.study.answers import gold_fields, read_answers
from palate.study.database import (
    AskedEntry,
    Chooser,
    Database,
    GivenAnswer,
    RaterState,
    Sessions,
    hashed,
    reading,
    token_of,
    value_of,
)
from palate.study.records import GOLD, ITEMS, LINKS, AnswerRow, ListEntry, Study, read_study

EXPORTS = "exports"
UNKNOWN = "the study has no such rater, and nobody arrived under this id"


@dataclass
class StudyStore:
    """Places and answers of a study; safe to use from many threads and processes."""

    planned: Study
    hold_minutes: float = 60
    choose: Chooser | None = None
    clock: Callable[[], float] = time.time

    def __post_init__(self) -> None:
        """Open the study's database, or make it; raises `RunError` where it is another plan's."""
        self._offered: dict[tuple[str, int], ListEntry] = {}
        self._version, self._hash = (0, 0), self.planned.plan.hash
        self.database = Database(self.planned.folder, self._hash)

    def close(self) -> None:
        """Close the database."""
        self.database.close()

    @property
    def study(self) -> Study:
        """The study, read again where its items changed; raises `RunError` for another plan's."""
        status = (self.planned.folder / ITEMS).stat()
        if (version := (status.st_mtime_ns, status.st_size)) != self._version:
            study = read_study(self.planned.folder)
            if study.plan.hash != self._hash:
                raise RunError(f"{study.folder}: the plan was replaced; end the server, start anew")
            self.planned, self._version = study, version
        return self.planned

    def issue_links(self) -> dict[str, str]:
        """Seat a rater at every free place, and return the tokens of all who did not arrive.

        They are the same at any time. Who is closed or was deleted has none.
        """
        with self.database.transaction() as db:
            sessions = Sessions(db, self.study)
            free = {} if value_of(db, "closed") else sessions.free_places()
            for name, place in free.items():
                sessions.seat(name, place, sessions.planned(place))
            listed = "SELECT rater FROM raters WHERE NOT (closed OR arrived) ORDER BY place"
            tokens = {name: token_of(db, "link", name) for (name,) in db.execute(listed)}
            hashes = [(hashed(token), name) for name, token in tokens.items()]
            db.executemany("UPDATE raters SET token = ? WHERE rater = ?", hashes)
        return tokens

    def arrive(self, arrival: str) -> str | None:
        """Return the token of a place, the same for the same id; None where none is free."""
        with self.database.transaction() as db:
            token = token_of(db, "arrival", arrival)
            row = db.execute("SELECT closed FROM raters WHERE token = ?", (hashed(token),))
            if value_of(db, "closed"):
                return None
            if (known := row.fetchone()) is not None:
                return None if known[0] else token
            return token if self._take_place(Sessions(db, self.study), token) else None

    def _take_place(self, sessions: Sessions, token: str) -> bool:
        """Seat who arrives.

        When every place was taken once, what is open of one goes to a new rater: what a closed or
        deleted rater did not answer, and one who was not seen for long, who is closed by it.
        """
        db, plan, now = sessions.db, sessions.study.plan, self.clock()
        for name, place in sessions.free_places().items():
            sessions.seat(name, place, sessions.planned(place), token, now)
            return True
        for place in range(plan.raters):
            live, taken = [], set()
            for name, gone in db.execute(
                "SELECT rater, closed OR (arrived AND seen < ?) FROM raters WHERE place = ?",
                (now - 60 * self.hold_minutes, place),
            ).fetchall():
                if not gone or sessions.state(name).finished:
                    live.append(name)
                asked = sessions.session(name)
                taken |= {entry.item for entry, given in asked if given or name in live}
            entries = [entry for entry in sessions.planned(place) if entry.item not in taken]
            if entries or (plan.mode == "collect" and not live):
                left = f"place = ? AND rater NOT IN ({', '.join('?' * len(live))})"
                db.execute(f"UPDATE raters SET closed = 1 WHERE {left}", (place, *live))
                numbers = [int(name[1:]) for (name,) in db.execute("SELECT rater FROM raters")]
                sessions.seat(sessions.rater_name(max(numbers)), place, entries, token, now)
                return True
        return False

    def rater(self, token: str) -> RaterState | None:
        """Return where the rater of a token stands; None where it is nobody's, or closed."""
        with reading(self.planned.folder, self._hash) as db:
            named = "SELECT rater FROM raters WHERE token = ? AND NOT closed"
            if (row := db.execute(named, (hashed(token),)).fetchone()) is None:
                return None
            sessions = Sessions(db, self.study)
            state = sessions.state(row[0])
            if self._following(sessions, state) == []:
                return state._replace(total=state.answered, finished=True)
            return state

    def consent(self, rater: str) -> None:
        """Keep that a rater consented."""
        self._set(rater, "consented", 1)

    def set_traits(self, rater: str, traits: Mapping[str, str]) -> None:
        """Keep what a rater said of themselves; raises `DataError` for no option of the plan."""
        with self._writing(rater) as sessions:
            sessions.write_traits(rater, traits)

    def pass_practice(self, rater: str, n: int) -> None:
        """Keep how many practice items a rater passed."""
        self._set(rater, "practice", n)

    def entry(self, rater: str, position: int) -> AskedEntry | None:
        """Return a position of a rater's list, from 0; None past its end.

        A collection chooses what comes next when an answer is saved. Where that was forgotten
        meanwhile, another is chosen here, and kept when it is answered: to look writes nothing.
        """
        with reading(self.planned.folder, self._hash) as db:
            sessions = Sessions(db, self.study)
            session, state = sessions.session(rater, position), sessions.state(rater)
            if not session and position == state.next_position:
                for entry in self._following(sessions, state) or ():
                    self._offered[rater, position] = entry
                    session = [(entry, None)]
        if not session:
            return None
        entry, given = session[0]
        return AskedEntry(entry, sessions.study.items.get(entry.item), given)

    def save(self, rater: str, position: int, given: GivenAnswer) -> None:
        """Keep an answer, which is on disk when this returns.

        The same answer again changes nothing; another is a change, and the earlier one stays.
        Raises `UsageError` for a rater who may not answer, or a position that is not to be
        answered; `DataError` for ratings that do not go with the item; `ResourceError` where it
        could not be saved.
        """
        with self._writing(rater) as sessions:
            state = sessions.state(rater)
            if not state.consented:
                raise UsageError(f"{rater}: has not consented, so nothing is kept")
            offered = self._offered.get((rater, position))
            if offered and self._following(sessions, state) and position == state.next_position:
                sessions.append(rater, [offered])
            session = sessions.session(rater, position)
            if not session or (session[0][1] is None and position != state.next_position):
                raise UsageError(f"{rater}: position {position} is not to be answered")
            sessions.write_answer(rater, position, given)
            self._choose_next(sessions, rater)

    def delete(self, rater: str) -> None:
        """Delete all that is kept of a rater; raises `ResourceError` where bytes of it stay."""
        forget_rater(self.database, self.planned.folder, rater)

    def answers(self) -> list[AnswerRow]:
        """Return every answer, by rater and position."""
        return read_answers(self.study)

    def _set(self, rater: str, column: str, value: int) -> None:
        with self._writing(rater) as sessions:
            update = f"UPDATE raters SET {column} = ? WHERE rater = ?"
            sessions.db.execute(update, (value, rater))
            self._choose_next(sessions, rater)

    @contextmanager
    def _writing(self, rater: str) -> Iterator[Sessions]:
        """Give the sessions for what a rater writes; raises `UsageError` for who is closed."""
        with self.database.transaction() as db:
            seen = "UPDATE raters SET seen = ? WHERE rater = ? AND NOT closed"
            if not db.execute(seen, (self.clock(), rater)).rowcount:
                raise UsageError(f"{rater}: takes no answers any more")
            yield Sessions(db, self.study)

    def _choose_next(self, sessions: Sessions, rater: str) -> None:
        """Keep what a collection asks next, so that no page has to when it is opened."""
        following = self._following(sessions, sessions.state(rater))
        sessions.append(rater, following or ())
        if following == []:
            sessions.db.execute("UPDATE raters SET ended = 1 WHERE rater = ?", (rater,))

    def _following(self, sessions: Sessions, state: RaterState) -> list[ListEntry] | None:
        """Return what a collection asks next, none at its end; None where something waits."""
        if self.choose is None or not state.consented or state.finished:
            return None
        session = sessions.session(state.rater)
        if state.next_position < len(session):
            return None
        while (entry := self.choose(state.rater, session)) is not None:
            if entry.item in sessions.study.items:
                return [entry]
            session.append((entry, None))  # forgotten since the chooser was made
        return []


def rater_named(db: sqlite3.Connection, name: str) -> str | None:
    """Return the rater of this name, or who arrived under it."""
    named = (name, hashed(token_of(db, "arrival", name)))
    row = db.execute("SELECT rater FROM raters WHERE rater = ? OR token = ?", named).fetchone()
    return row and str(row[0])


def forget_rater(database: Database, folder: Path, name: str) -> str:
    """Delete all that is kept of a rater, and return which; the name alone is never given again.

    It may be done once more where bytes stayed. Raises `UsageError` for an unknown rater,
    `ResourceError` where deleted bytes stay in a file, as another program reads it.
    """
    with database.transaction() as db:
        rater = rater_named(db, name)
        if rater is None:
            raise UsageError(f"{name}: {UNKNOWN}")
        for table in ("entries", "changes"):
            db.execute(f"DELETE FROM {table} WHERE rater = ?", (rater,))
        row = "SELECT rater, place, 1 FROM raters WHERE rater = ?"
        db.execute(f"REPLACE INTO raters (rater, place, closed) {row}", (rater,))
        if (links := folder / LINKS).exists():
            of_rater = re.compile(rf"\W*{rater}\b")
            _rewrite_lines(links, lambda line: "" if of_rater.match(line) else line)
        _rewrite_exported(
            folder,
            lambda row: (
                rater not in (row.get("rater"), str(row.get("user_id")).rpartition("-")[2]) and row
            ),
        )
    database.truncate_log()
    return rater


def forget_user(database: Database, folder: Path, user: str) -> int:
    """Drop every item that holds what a user of the data wrote, and their gold.

    Answers to them stay, exported ones too, without the user's rows. Returns how many items and
    rows that were, 0 for an unknown user.
    """
    with database.transaction():  # nobody else forgets a user meanwhile
        study, key = read_study(folder), user_key(user)
        gold = tuple(row for row in study.gold if row.user != key)
        items = {name: item for name, item in study.items.items() if key not in item.users}
        gone = study.items.keys() - items.keys()
        if n := len(gone) + len(study.gold) - len(gold):
            staying = replace(study, items=items, gold=gold)

            def without(row: dict[str, Any]) -> dict[str, Any] | bool:
                item = row.get("item", str(row.get("id")).rpartition("-")[2])
                if item not in gone:
                    return row
                return "choice" in row and row | gold_fields(staying, item)

            _rewrite_exported(folder, without)
            with writing(folder):
                staying.write_items()
        return n


def close_raters(database: Database, name: str | None) -> str:
    """Take no more answers of a rater, or of anybody; raises `UsageError` for an unknown name."""
    with database.transaction() as db:
        rater = name and rater_named(db, name)
        if name and rater is None:
            raise UsageError(f"{name}: {UNKNOWN}")
        if rater is None:
            db.execute("INSERT OR IGNORE INTO study VALUES ('closed', 'all')")
        db.execute("UPDATE raters SET closed = 1 WHERE rater = ifnull(?, rater)", (rater,))
        return rater or "all raters"


def _rewrite_exported(
    folder: Path, changed: Callable[[dict[str, Any]], dict[str, Any] | bool]
) -> None:
    """Write the exported lines that change anew, less those for which nothing stays."""

    def rewritten(line: str) -> str:
        try:
            row = json.loads(line)
        except ValueError:
            return line
        new = changed(row) if isinstance(row, dict) else row
        return line if new == row else f"{canonical_json(new)}\n" if new else ""

    for place in (folder, folder / EXPORTS):
        for left in place.glob(f".*{ENDING}"):  # a killed writer's: the transaction has no other
            left.unlink(missing_ok=True)
    for path in folder.rglob("*.jsonl"):
        if path not in (folder / ITEMS, folder / GOLD):
            _rewrite_lines(path, rewritten)


def _rewrite_lines(path: Path, changed: Callable[[str], str]) -> None:
    with writing(path):
        with path.open(encoding="utf-8", errors="surrogateescape", newline="\n") as file:
            lines = list(file)
        new = [changed(line) for line in lines]
        if new != lines:
            write_whole(path, new, "surrogateescape")
            path.chmod(0o600)
