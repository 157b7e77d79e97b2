"""The store of a study's answers, as its pages use it."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Mapping

from palate.errors import RunError, UsageError
from palate.study.folder import ITEMS, Study, read_study
from palate.study.records import AnswerRow
from palate.study.store.database import Database, reading, value_of
from palate.study.store.forgetting import forget_rater
from palate.study.store.places import arrival_token, hashed, issue_links, take_place
from palate.study.store.rows import answer_rows
from palate.study.store.saving import need_traits, write_answer
from palate.study.store.sessions import (
    AskedEntry,
    Chooser,
    GivenAnswer,
    RaterState,
    add_entries,
    session_of,
    state_of,
)


class StudyStore:
    """Places and answers of a study; safe to use from many threads and processes."""

    def __init__(
        self, study: Study, hold_minutes: float, choose: Chooser | None, clock: Callable[[], float]
    ) -> None:
        self._study, self._version = study, _version(study)
        self._hold, self._choose, self._clock = 60 * hold_minutes, choose, clock
        self.database = Database(study.folder, study.plan.hash)

    @classmethod
    def open(
        cls, study: Study, *, hold_minutes: float = 60, choose: Chooser | None = None,
        clock: Callable[[], float] = time.time,
    ) -> StudyStore:  # fmt: skip
        """Open the study's database, or make it; raises `RunError` where it is another plan's."""
        return cls(study, hold_minutes, choose, clock)

    def close(self) -> None:
        """Close the database."""
        self.database.close()

    @property
    def study(self) -> Study:
        """The study, read again where its items changed; raises `RunError` for another plan's."""
        if (version := _version(self._study)) != self._version:
            study = read_study(self._study.folder)
            if study.plan.hash != self._study.plan.hash:
                raise RunError(f"{study.folder}: the plan was replaced; end the server, start anew")
            self._study, self._version = study, version
        return self._study

    def issue_links(self) -> dict[str, str]:
        """Return a token for every place that is free, by rater; the first time alone."""
        with self.database.transaction() as db:
            return issue_links(db, self.study)

    def arrive(self, arrival: str) -> str | None:
        """Return the token of a place, the same for the same id; None where none is free."""
        with self.database.transaction() as db:
            token, now = arrival_token(db, arrival), self._clock()
            at = (hashed(token),)
            known = db.execute("SELECT closed FROM raters WHERE token = ?", at).fetchone()
            if value_of(db, "closed"):
                return None
            if known is None:
                return token if take_place(db, self.study, token, now, now - self._hold) else None
            return None if known[0] else token

    def rater(self, token: str) -> RaterState | None:
        """Return where the rater of a token stands; None where it is nobody's, or closed."""
        with reading(self._study.folder, self._study.plan.hash) as db:
            row = db.execute(
                "SELECT rater FROM raters WHERE token = ? AND NOT closed", (hashed(token),)
            ).fetchone()
            return row and state_of(db, self.study, row[0])

    def consent(self, rater: str) -> None:
        """Keep that a rater consented."""
        self._set(rater, "consented", 1)

    def set_traits(self, rater: str, traits: Mapping[str, str]) -> None:
        """Keep what a rater said of themselves; raises `DataError` for no option of the plan."""
        need_traits(self.study, traits)
        self._set(rater, "traits", json.dumps(dict(traits)))

    def pass_practice(self, rater: str, n: int) -> None:
        """Keep how many practice items a rater passed."""
        self._set(rater, "practice", n)

    def entry(self, rater: str, position: int) -> AskedEntry | None:
        """Return a position of a rater's list, from 0; None past its end.

        A collection chooses what comes next when an answer is saved; here only where that item was
        forgotten meanwhile.
        """
        study = self.study
        with reading(study.folder, study.plan.hash) as db:
            session, state = session_of(db, rater), state_of(db, study, rater)
        if position == len(session) == state.next_position and not state.finished:
            with self.database.transaction() as db:
                self._choose_next(db, rater)
                session = session_of(db, rater)
        if not 0 <= position < len(session):
            return None
        entry, given = session[position]
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
            study, session = self.study, session_of(db, rater)
            state = self._touch(db, rater)
            if not state.consented:
                raise UsageError(f"{rater}: has not consented, so nothing is kept")
            answered = [k for k, (_, earlier) in enumerate(session) if earlier]
            if position not in (*answered, state.next_position) or position >= len(session):
                raise UsageError(f"{rater}: position {position} is not to be answered")
            write_answer(db, study, rater, position, given)
            self._choose_next(db, rater)

    def delete(self, rater: str) -> None:
        """Delete all that is kept of a rater; raises `ResourceError` where bytes of it stay."""
        forget_rater(self.database, self._study, rater)

    def answers(self) -> list[AnswerRow]:
        """Return every answer, by rater and position."""
        study = self.study
        with reading(study.folder, study.plan.hash) as db:
            return answer_rows(db, study)

    def _set(self, rater: str, column: str, value: object) -> None:
        with self.database.transaction() as db:
            self._touch(db, rater)
            db.execute(f"UPDATE raters SET {column} = ? WHERE rater = ?", (value, rater))
            self._choose_next(db, rater)

    def _touch(self, db: sqlite3.Connection, rater: str) -> RaterState:
        """Note that a rater was seen, and return where they stand; raises where they are closed."""
        now = self._clock()
        seen = "UPDATE raters SET seen = ? WHERE rater = ? AND NOT closed"
        if not db.execute(seen, (now, rater)).rowcount:
            raise UsageError(f"{rater}: takes no answers any more")
        return state_of(db, self.study, rater)

    def _choose_next(self, db: sqlite3.Connection, rater: str) -> None:
        """Choose what a collection asks next, so that no page has to when it is opened."""
        while self._choose is not None:
            state, session = state_of(db, self.study, rater), session_of(db, rater)
            if not state.consented or state.finished or state.next_position < len(session):
                return
            chosen = self._choose(rater, session)
            if chosen is None:
                db.execute("UPDATE raters SET ended = 1 WHERE rater = ?", (rater,))
                return
            add_entries(db, rater, [chosen])


def _version(study: Study) -> tuple[int, int, int]:
    status = (study.folder / ITEMS).stat()
    return status.st_mtime_ns, status.st_size, status.st_ino
