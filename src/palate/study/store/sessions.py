"""A rater's session: what was asked, what was answered, and where the rater stands."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

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
    """One place of a rater's list."""

    entry: ListEntry
    item: StudyItem | None
    """None where it was forgotten: it is passed over."""
    given: GivenAnswer | None


Chooser = Callable[[str, Sequence[tuple[ListEntry, GivenAnswer | None]]], ListEntry | None]
"""What a collection asks next, of a rater's id and what was asked so far."""


def session_of(
    db: sqlite3.Connection, rater: str, position: int | None = None
) -> list[tuple[ListEntry, GivenAnswer | None]]:
    """Return what a rater was asked, in order, with the answers; or one position of it."""
    rows = db.execute(
        "SELECT item, swapped, again, choice, ratings, seconds FROM entries "
        "LEFT JOIN answers USING (rater, position) "
        "WHERE rater = ? AND position = ifnull(?, position) ORDER BY position",
        (rater, position),
    )
    return [
        (
            ListEntry(item=item, swapped=swapped, again=again),
            None
            if choice is None
            else GivenAnswer(choice=choice, ratings=json.loads(ratings), seconds=seconds),
        )
        for item, swapped, again, choice, ratings, seconds in rows
    ]


def state_of(db: sqlite3.Connection, study: Study, rater: str) -> RaterState:
    """Return where a rater stands; raises `UsageError` for one that is not there."""
    row = db.execute(
        "SELECT consented, traits, practice, ended FROM raters WHERE rater = ?", (rater,)
    ).fetchone()
    if row is None:
        raise UsageError(f"{rater}: the study has no such rater")
    consented, traits, practice, ended = row
    session = db.execute(
        "SELECT item, choice FROM entries LEFT JOIN answers USING (rater, position) "
        "WHERE rater = ? ORDER BY position",
        (rater,),
    ).fetchall()
    waiting = [
        k for k, (item, choice) in enumerate(session) if choice is None and item in study.items
    ]
    answered = sum(choice is not None for _, choice in session)
    total = answered + len(waiting)
    if study.plan.mode == "collect" and not ended:
        total = max(total, study.plan.per_rater or 0)
    return RaterState(
        rater,
        bool(consented),
        None if traits is None else json.loads(traits),
        practice,
        answered,
        total,
        answered == total,
        waiting[0] if waiting else len(session),
    )


def add_entries(
    db: sqlite3.Connection, study: Study, rater: str, entries: Iterable[ListEntry]
) -> None:
    """Append to a rater's list."""
    start = db.execute("SELECT count(*) FROM entries WHERE rater = ?", (rater,)).fetchone()[0]
    db.executemany(
        "INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?)",
        [
            (rater, k, entry.item, entry.swapped, entry.again, json.dumps(_facts(study, entry)))
            for k, entry in enumerate(entries, start)
        ],
    )


def _facts(study: Study, entry: ListEntry) -> dict[str, Any]:
    item = study.items[entry.item]
    return {
        "pair": item.pair,
        "kind": item.kind,
        "asks": item.asks,
        "again": entry.again,
        "responses": study.responses_of[item.id],
        "expected": item.expected,
        "left": "second" if entry.swapped else "first",
        "category": item.category,
    }
