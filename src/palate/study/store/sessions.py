"""A rater's session: what was asked, what was answered, and where the rater stands."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from palate.errors import UsageError
from palate.records import Record
from palate.study.folder import Study
from palate.study.records import Choice, ListEntry, Score, StudyItem


class GivenAnswer(Record):
    """What a rater answered to one item."""

    choice: Choice
    ratings: Mapping[str, tuple[Score, Score]] = {}
    """Of the first and the second answer, by dimension."""
    seconds: float | None = None


class RaterState(NamedTuple):
    """Where a rater stands."""

    rater: str
    consented: bool
    traits: Mapping[str, str] | None
    practice: int
    """Practice items that were passed."""
    answered: int
    total: int
    finished: bool
    next_position: int
    """The first that is to be answered; past the end where none is."""


class AskedEntry(NamedTuple):
    """One position of a rater's list."""

    entry: ListEntry
    item: StudyItem | None
    """None where it was forgotten: it is passed over."""
    given: GivenAnswer | None


Session = list[tuple[ListEntry, GivenAnswer | None]]
Chooser = Callable[[str, Sequence[tuple[ListEntry, GivenAnswer | None]]], ListEntry | None]
"""What a collection asks next, of a rater's id and what was asked so far."""


def session_of(db: sqlite3.Connection, rater: str) -> Session:
    """Return what a rater was asked, in order, with the answers."""
    session: Session = []
    for item, swapped, again, answer in db.execute(
        "SELECT item, swapped, again, answer FROM entries WHERE rater = ? ORDER BY position",
        (rater,),
    ):
        row = json.loads(answer or "null")
        given = row and GivenAnswer(**{name: row[name] for name in GivenAnswer.model_fields})
        session.append((ListEntry(item=item, swapped=swapped, again=again), given))
    return session


def state_of(db: sqlite3.Connection, study: Study, rater: str) -> RaterState:
    """Return where a rater stands; raises `UsageError` for one that is not there."""
    columns = "consented, traits, practice, ended"
    row = db.execute(f"SELECT {columns} FROM raters WHERE rater = ?", (rater,)).fetchone()
    if row is None:
        raise UsageError(f"{rater}: the study has no such rater")
    session, known = session_of(db, rater), study.items
    waiting = [k for k, (entry, given) in enumerate(session) if not given and entry.item in known]
    answered = sum(given is not None for _, given in session)
    total = answered + len(waiting)
    if study.plan.mode == "collect" and not row[3]:
        total = max(total, study.plan.per_rater or 0)
    following = waiting[0] if waiting else len(session)
    of_rater = bool(row[0]), json.loads(row[1]), row[2]
    return RaterState(rater, *of_rater, answered, total, answered == total, following)


def add_entries(db: sqlite3.Connection, rater: str, entries: Iterable[ListEntry]) -> None:
    """Append to a rater's list."""
    start = db.execute("SELECT count(*) FROM entries WHERE rater = ?", (rater,)).fetchone()[0]
    db.executemany(
        "INSERT INTO entries VALUES (?, ?, ?, ?, ?, NULL)",
        [(rater, k, *entry.model_dump().values()) for k, entry in enumerate(entries, start)],
    )
