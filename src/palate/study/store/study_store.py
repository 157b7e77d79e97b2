"""The store of a study's answers, as its pages use it."""

from __future__ import annotations

import secrets
import sqlite3
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from palate.errors import RunError, UsageError
from palate.study.folder import ITEMS, Study, read_study
from palate.study.records import AnswerRow
from palate.study.store import sessions
from palate.study.store.database import Database, arrival_token, hashed, reading, value_of
from palate.study.store.forgetting import forget_rater
from palate.study.store.rows import answer_rows
from palate.study.store.sessions import AskedEntry, Chooser, GivenAnswer, RaterState


@dataclass
class StudyStore:
    """Places and answers of a study; safe to use from many threads and processes."""

    planned: Study
    hold_minutes: float = 60
    choose: Chooser | None = None
    clock: Callable[[], float] = time.time

    def __post_init__(self) -> None:
        """Open the study's database, or make it; raises `RunError` where it is another plan's."""
        self._version, self._hash = _version(self.planned), self.planned.plan.hash
        self.database = Database(self.planned.folder, self._hash)

    @classmethod
    def open(
        cls, study: Study, *, hold_minutes: float = 60, choose: Chooser | None = None
    ) -> StudyStore:
        """Open the study's database, or make it; raises `RunError` where it is another plan's."""
        return cls(study, hold_minutes, choose)

    def close(self) -> None:
        """Close the database."""
        self.database.close()

    @property
    def study(self) -> Study:
        """The study, read again where its items changed; raises `RunError` for another plan's."""
        if (version := _version(self.planned)) != self._version:
            study = read_study(self.planned.folder)
            if study.plan.hash != self._hash:
                raise RunError(f"{study.folder}: the plan was replaced; end the server, start anew")
            self.planned, self._version = study, version
        return self.planned

    def issue_links(
        self, keep: Callable[[dict[str, str]], None] = lambda _: None
    ) -> dict[str, str]:
        """Return a token for every place that is free, by rater; the first time alone.

        They are issued once `keep` has them: where it raises, they are issued another time.
        """
        tokens: dict[str, str] = {}
        with self.database.transaction() as db:
            if not value_of(db, "links"):
                db.execute("INSERT INTO study VALUES ('links', 'issued')")
                for name, place in sessions.free_places(db, self.study).items():
                    tokens[name] = secrets.token_urlsafe(24)
                    sessions.seat(db, self.study, name, place, tokens[name])
                keep(tokens)
        return tokens

    def arrive(self, arrival: str) -> str | None:
        """Return the token of a place, the same for the same id; None where none is free."""
        with self.database.transaction() as db:
            token = arrival_token(db, arrival)
            row = db.execute("SELECT closed FROM raters WHERE token = ?", (hashed(token),))
            if value_of(db, "closed"):
                return None
            if (known := row.fetchone()) is not None:
                return None if known[0] else token
            return token if self._take_place(db, token) else None

    def _take_place(self, db: sqlite3.Connection, token: str) -> bool:
        """Seat who arrives.

        When every place was taken once, what is open of one goes to a new rater: what a closed or
        deleted rater did not answer, and one who was not seen for long, who is closed by it.
        """
        study, now = self.study, self.clock()
        for name, place in sessions.free_places(db, study).items():
            sessions.seat(db, study, name, place, token, now)
            return True
        for place in range(study.plan.raters):
            live, taken = [], set()
            for name, gone in db.execute(
                "SELECT rater, closed OR (arrived AND seen < ?) FROM raters WHERE place = ?",
                (now - 60 * self.hold_minutes, place),
            ).fetchall():
                if not gone or sessions.state_of(db, study, name).finished:
                    live.append(name)
                session = sessions.session_of(db, name)
                taken |= {entry.item for entry, given in session if given or name in live}
            entries = [
                entry for entry in sessions.planned_list(study, place) if entry.item not in taken
            ]
            if entries or (study.plan.mode == "collect" and not live):
                left = f"place = ? AND rater NOT IN ({', '.join('?' * len(live))})"
                db.execute(f"UPDATE raters SET closed = 1 WHERE {left}", (place, *live))
                numbers = [int(name[1:]) for (name,) in db.execute("SELECT rater FROM raters")]
                name = sessions.rater_name(study, max(numbers))
                sessions.seat(db, study, name, place, token, now, entries)
                return True
        return False

    def rater(self, token: str) -> RaterState | None:
        """Return where the rater of a token stands; None where it is nobody's, or closed."""
        with reading(self.planned.folder, self._hash) as db:
            row = db.execute(
                "SELECT rater FROM raters WHERE token = ? AND NOT closed", (hashed(token),)
            ).fetchone()
            return row and sessions.state_of(db, self.study, row[0])

    def consent(self, rater: str) -> None:
        """Keep that a rater consented."""
        self._set(rater, "consented", 1)

    def set_traits(self, rater: str, traits: Mapping[str, str]) -> None:
        """Keep what a rater said of themselves; raises `DataError` for no option of the plan."""
        with self.database.transaction() as db:
            self._touch(db, rater)
            sessions.write_traits(db, self.study, rater, traits)

    def pass_practice(self, rater: str, n: int) -> None:
        """Keep how many practice items a rater passed."""
        self._set(rater, "practice", n)

    def entry(self, rater: str, position: int) -> AskedEntry | None:
        """Return a position of a rater's list, from 0; None past its end.

        A collection chooses what comes next when an answer is saved; here only where that item was
        forgotten meanwhile.
        """
        with reading(self.planned.folder, self._hash) as db:
            session, study = sessions.session_of(db, rater, position), self.study
            state = None if session else sessions.state_of(db, study, rater)
        if state and not state.finished and position == state.next_position:
            with self.database.transaction() as db:
                self._choose_next(db, rater)
                session = sessions.session_of(db, rater, position)
        if not session:
            return None
        entry, given = session[0]
        return AskedEntry(entry, study.items.get(entry.item), given)

    def save(self, rater: str, position: int, given: GivenAnswer) -> None:
        """Keep an answer, which is on disk when this returns.

        The same answer again changes nothing; another is a change, and the earlier one stays.

        Raises:
            UsageError: for a rater who may not answer, or a position that is not to be answered.
            DataError: for ratings that do not go with the item.
            ResourceError: where it could not be saved.
        """
        with self.database.transaction() as db:
            self._touch(db, rater)
            state, session = (
                sessions.state_of(db, self.study, rater),
                sessions.session_of(db, rater, position),
            )
            if not state.consented:
                raise UsageError(f"{rater}: has not consented, so nothing is kept")
            if not session or (session[0][1] is None and position != state.next_position):
                raise UsageError(f"{rater}: position {position} is not to be answered")
            sessions.write_answer(db, self.study, rater, position, given)
            self._choose_next(db, rater)

    def delete(self, rater: str) -> None:
        """Delete all that is kept of a rater; raises `ResourceError` where bytes of it stay."""
        forget_rater(self.database, self.planned.folder, rater)

    def answers(self) -> list[AnswerRow]:
        """Return every answer, by rater and position."""
        with reading(self.planned.folder, self._hash) as db:
            return answer_rows(db, self.study)

    def _set(self, rater: str, column: str, value: int) -> None:
        with self.database.transaction() as db:
            self._touch(db, rater)
            db.execute(f"UPDATE raters SET {column} = ? WHERE rater = ?", (value, rater))
            self._choose_next(db, rater)

    def _touch(self, db: sqlite3.Connection, rater: str) -> None:
        """Note that a rater was seen; raises `UsageError` where they are closed."""
        seen = "UPDATE raters SET seen = ? WHERE rater = ? AND NOT closed"
        if not db.execute(seen, (self.clock(), rater)).rowcount:
            raise UsageError(f"{rater}: takes no answers any more")

    def _choose_next(self, db: sqlite3.Connection, rater: str) -> None:
        """Choose what a collection asks next, so that no page has to when it is opened."""
        while self.choose is not None:
            state, session = (
                sessions.state_of(db, self.study, rater),
                sessions.session_of(db, rater),
            )
            if not state.consented or state.finished or state.next_position < len(session):
                return
            chosen = self.choose(rater, session)
            sessions.add_entries(db, rater, [chosen] if chosen else [])
            if chosen is None:
                db.execute("UPDATE raters SET ended = 1 WHERE rater = ?", (rater,))


def _version(study: Study) -> tuple[int, int]:
    status = (study.folder / ITEMS).stat()
    return status.st_mtime_ns, status.st_size
