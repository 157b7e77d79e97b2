"""The store of a study's answers, as its pages use it."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from palate.errors import RunError, UsageError
from palate.study.folder import ITEMS, Study, read_study
from palate.study.records import AnswerRow, ListEntry
from palate.study.store import sessions
from palate.study.store.database import Database, hashed, reading, token_of, value_of
from palate.study.store.forgetting import forget_rater
from palate.study.store.rows import read_answers
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
            free = {} if value_of(db, "closed") else sessions.free_places(db, self.study)
            for name, place in free.items():
                sessions.seat(db, self.study, name, place)
            listed = "SELECT rater FROM raters WHERE NOT (closed OR arrived) ORDER BY place"
            names = [name for (name,) in db.execute(listed)]
            tokens = {name: token_of(db, "link", name) for name in names}
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
            named = "SELECT rater FROM raters WHERE token = ? AND NOT closed"
            if (row := db.execute(named, (hashed(token),)).fetchone()) is None:
                return None
            state = sessions.state_of(db, self.study, row[0])
            if self._following(db, state) == []:
                return state._replace(total=state.answered, finished=True)
            return state

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

        A collection chooses what comes next when an answer is saved. Where that was forgotten
        meanwhile, another is chosen here, and kept when it is answered: to look writes nothing.
        """
        with reading(self.planned.folder, self._hash) as db:
            session, study = sessions.session_of(db, rater, position), self.study
            state = sessions.state_of(db, study, rater)
            if not session and position == state.next_position:
                for entry in self._following(db, state) or ():
                    self._offered[rater, position] = entry
                    session = [(entry, None)]
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
            state = sessions.state_of(db, self.study, rater)
            if not state.consented:
                raise UsageError(f"{rater}: has not consented, so nothing is kept")
            offered = self._offered.get((rater, position))
            if offered and self._following(db, state) and position == state.next_position:
                sessions.add_entries(db, rater, [offered])
            session = sessions.session_of(db, rater, position)
            if not session or (session[0][1] is None and position != state.next_position):
                raise UsageError(f"{rater}: position {position} is not to be answered")
            sessions.write_answer(db, self.study, rater, position, given)
            self._choose_next(db, rater)

    def delete(self, rater: str) -> None:
        """Delete all that is kept of a rater; raises `ResourceError` where bytes of it stay."""
        forget_rater(self.database, self.planned.folder, rater)

    def answers(self) -> list[AnswerRow]:
        """Return every answer, by rater and position."""
        return read_answers(self.study)

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
        """Keep what a collection asks next, so that no page has to when it is opened."""
        following = self._following(db, sessions.state_of(db, self.study, rater))
        sessions.add_entries(db, rater, following or ())
        if following == []:
            db.execute("UPDATE raters SET ended = 1 WHERE rater = ?", (rater,))

    def _following(self, db: sqlite3.Connection, state: RaterState) -> list[ListEntry] | None:
        """Return what a collection asks next, none at its end; None where something waits."""
        if self.choose is None or not state.consented or state.finished:
            return None
        session = sessions.session_of(db, state.rater)
        if state.next_position < len(session):
            return None
        while (entry := self.choose(state.rater, session)) is not None:
            if entry.item in self.study.items:
                return [entry]
            session.append((entry, None))  # forgotten since the chooser was made
        return []
