"""A rater's session: what was asked, what was answered, and where the rater stands."""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from palate.errors import DataError, UsageError
from palate.records import Record
from palate.study.folder import Study
from palate.study.records import DIMENSIONS, AnswerRow, Choice, ListEntry, Score, StudyItem
from palate.study.store.database import hashed

ADDED = {"contexts", "rows", "gold", "traits", "excluded"}
"""Fields of an answer's row that are added when it is read."""
LONGEST = 86_400.0
"""Seconds that an answer may have taken; a page left open overnight says no more."""


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


def session_of(db: sqlite3.Connection, rater: str, position: int | None = None) -> Session:
    """Return what a rater was asked, in order, with the answers; or one position of it."""
    session: Session = []
    where = "rater = ? AND position = ifnull(?, position) ORDER BY position"
    listed = f"SELECT item, swapped, again, answer FROM entries WHERE {where}"
    for item, swapped, again, answer in db.execute(listed, (rater, position)):
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
    listed = "SELECT item, answer IS NULL FROM entries WHERE rater = ? ORDER BY position"
    session = db.execute(listed, (rater,)).fetchall()
    waiting = [k for k, (item, is_open) in enumerate(session) if is_open and item in study.items]
    answered = sum(not is_open for _, is_open in session)
    total = answered + len(waiting)
    if study.plan.mode == "collect" and not row[3]:
        total = max(total, study.plan.per_rater or 0)
    following = waiting[0] if waiting else len(session)
    of_rater = bool(row[0]), json.loads(row[1]), row[2]
    return RaterState(rater, *of_rater, answered, total, answered == total, following)


def write_answer(
    db: sqlite3.Connection, study: Study, rater: str, position: int,
    given: GivenAnswer, date: str | None = None, changed: int = 0,
) -> None:  # fmt: skip
    """Write an answer, unless the same stands there; another one goes to the changes.

    Who skips rates nothing. Raises `UsageError` where the item was forgotten, `DataError` for
    ratings that do not go with it.
    """
    ((entry, earlier),) = session_of(db, rater, position)
    item = study.items.get(entry.item)
    if item is None:
        raise UsageError(f"{rater}: the item at position {position} was forgotten")
    ratings = {} if given.choice == "skip" else dict(given.ratings)
    wanted = DIMENSIONS if item.asks == "better" and given.choice != "skip" else ()
    if set(ratings) != set(wanted):
        raise DataError(f"expected {', '.join(wanted) or 'none'}", field="ratings")
    if earlier and (earlier.choice, earlier.ratings) == (given.choice, ratings):
        return
    place, where = (rater, position), "WHERE rater = ? AND position = ?"
    if earlier:
        stands = f"SELECT rater, position, answer FROM entries {where}"
        db.execute(f"INSERT INTO changes {stands}", place)
        changed = db.execute(f"SELECT count(*) FROM changes {where}", place).fetchone()[0]
    seconds = given.seconds if given.seconds is None or math.isfinite(given.seconds) else None
    row = AnswerRow(
        **item.model_dump(include={"pair", "kind", "asks", "expected", "category"}),
        **{"rater": rater, "item": item.id, "again": entry.again, "changed": changed},
        **{"responses": study.responses_of[item.id], "choice": given.choice, "ratings": ratings},
        left="second" if entry.swapped else "first",
        seconds=seconds and min(max(seconds, 0.0), LONGEST),
        date=date or datetime.now(UTC).isoformat(timespec="seconds"),
    )
    answer = row.model_dump_json(exclude=ADDED)
    db.execute(f"UPDATE entries SET answer = ? {where}", (answer, *place))


def write_traits(
    db: sqlite3.Connection, study: Study, rater: str, traits: Mapping[str, str]
) -> None:
    """Write what a rater said of themselves; raises `DataError` for no option of the plan."""
    options = {trait.name: trait.options for trait in study.plan.traits}
    for name, value in traits.items():
        if value not in options.get(name, ()):
            expected = " or ".join(options.get(name, ("no such trait",)))
            raise DataError(f"{name} = {value!r}: expected {expected}", field="traits")
    text = json.dumps(dict(traits))
    db.execute("UPDATE raters SET traits = ? WHERE rater = ?", (text, rater))


def rater_name(study: Study, place: int) -> str:
    """Return the name of who first takes a place."""
    return f"r{place + 1:0{max(2, len(str(study.plan.raters)))}d}"


def planned_list(study: Study, place: int) -> list[ListEntry]:
    """Return what a place is asked, less what was forgotten; nothing of a collection."""
    planned = study.plan.lists[place] if study.plan.mode == "judge" else ()
    return [entry for entry in planned if entry.item in study.items]


def free_places(db: sqlite3.Connection, study: Study) -> dict[str, int]:
    """Return the places that nobody ever took, by the name of who will."""
    taken = {name for (name,) in db.execute("SELECT rater FROM raters")}
    names = {rater_name(study, place): place for place in range(study.plan.raters)}
    return {name: place for name, place in names.items() if name not in taken}


def seat(
    db: sqlite3.Connection, study: Study, name: str, place: int, token: str | None = None,
    arrived: float | None = None, entries: Sequence[ListEntry] | None = None,
) -> None:  # fmt: skip
    """Give a rater a place, with its list or what is open of it."""
    values = (name, place, token and hashed(token), arrived is not None, arrived or 0)
    columns = "rater, place, token, arrived, seen"
    db.execute(f"INSERT INTO raters ({columns}) VALUES (?, ?, ?, ?, ?)", values)
    add_entries(db, name, planned_list(study, place) if entries is None else entries)


def add_entries(db: sqlite3.Connection, rater: str, entries: Iterable[ListEntry]) -> None:
    """Append to a rater's list."""
    start = db.execute("SELECT count(*) FROM entries WHERE rater = ?", (rater,)).fetchone()[0]
    rows = [(rater, k, *entry.model_dump().values()) for k, entry in enumerate(entries, start)]
    db.executemany("INSERT INTO entries VALUES (?, ?, ?, ?, ?, NULL)", rows)
