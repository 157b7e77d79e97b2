"""Answers as they are written: checked against what was asked, changes beside what stands."""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Mapping
from datetime import UTC, datetime

from palate.errors import DataError
from palate.study.folder import Study
from palate.study.records import DIMENSIONS
from palate.study.store.sessions import GivenAnswer

LONGEST = 86_400.0
"""Seconds that an answer may have taken; a page left open overnight says no more."""


def checked(given: GivenAnswer, asks: str) -> GivenAnswer:
    """Return an answer as it is kept; raises `DataError` for ratings that do not go with its item.

    Who skips rates nothing, and a time of more than a day counts as a day.

    >>> checked(GivenAnswer(choice="first", seconds=-3), "prefers").seconds
    0.0
    >>> checked(GivenAnswer(choice="same"), "better")
    Traceback (most recent call last):
    palate.errors.DataError: `ratings`: expected ratings of correctness, relevance, helpfulness
    """
    ratings = {} if given.choice == "skip" else dict(given.ratings)
    wanted = DIMENSIONS if asks == "better" and given.choice != "skip" else ()
    if set(ratings) != set(wanted):
        names = ", ".join(wanted) or "nothing"
        raise DataError(f"expected ratings of {names}", field="ratings")
    seconds = given.seconds
    if seconds is not None:
        seconds = min(max(seconds, 0.0), LONGEST) if math.isfinite(seconds) else None
    return GivenAnswer(choice=given.choice, ratings=ratings, seconds=seconds)


def same_answer(a: GivenAnswer, b: GivenAnswer) -> bool:
    """Tell whether two answers say the same, however long they took."""
    return (a.choice, a.ratings) == (b.choice, b.ratings)


def need_traits(study: Study, traits: Mapping[str, str]) -> None:
    """Raise `DataError` for a trait, or an option of it, that the questionnaire does not have."""
    options = {trait.name: trait.options for trait in study.plan.traits}
    for name, value in traits.items():
        if value not in options.get(name, ()):
            expected = " or ".join(options.get(name, ("no such trait",)))
            raise DataError(f"{name} = {value!r}: expected {expected}", field="traits")


def write_answer(
    db: sqlite3.Connection,
    rater: str,
    position: int,
    given: GivenAnswer,
    *,
    date: str | None = None,
    changed: int = 0,
) -> None:
    """Write an answer; what stood there goes to the changes, which are counted."""
    at = (rater, position)
    row = db.execute("SELECT * FROM answers WHERE rater = ? AND position = ?", at).fetchone()
    if row is not None:
        changed += row[-1] + 1
        db.execute("INSERT INTO changes VALUES (?, ?, ?, ?, ?, ?)", row[:-1])
    ratings = json.dumps({name: list(both) for name, both in given.ratings.items()})
    date = date or datetime.now(UTC).isoformat(timespec="seconds")
    db.execute(
        "INSERT OR REPLACE INTO answers VALUES (?, ?, ?, ?, ?, ?, ?)",
        (*at, given.choice, ratings, given.seconds, date, changed),
    )
