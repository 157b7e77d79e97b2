"""Answers as they are written: checked against what was asked, changes beside what stands."""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Mapping
from datetime import UTC, datetime

from palate.errors import DataError, UsageError
from palate.study.folder import Study
from palate.study.records import DIMENSIONS, AnswerRow
from palate.study.store.sessions import GivenAnswer, session_of

ADDED = {"contexts", "rows", "gold", "traits", "excluded"}
"""Fields of an answer's row that are added when it is read."""
LONGEST = 86_400.0
"""Seconds that an answer may have taken; a page left open overnight says no more."""


def write_answer(
    db: sqlite3.Connection, study: Study, rater: str, position: int, given: GivenAnswer,
    *, date: str | None = None, changed: int = 0,
) -> None:  # fmt: skip
    """Write an answer, unless the same stands there; another one goes to the changes.

    Who skips rates nothing. Raises `UsageError` where the item was forgotten, `DataError` for
    ratings that do not go with it.
    """
    entry, earlier = session_of(db, rater)[position]
    item = study.items.get(entry.item)
    if item is None:
        raise UsageError(f"{rater}: the item at position {position} was forgotten")
    ratings = {} if given.choice == "skip" else dict(given.ratings)
    wanted = DIMENSIONS if item.asks == "better" and given.choice != "skip" else ()
    if set(ratings) != set(wanted):
        raise DataError(f"expected {', '.join(wanted) or 'none'}", field="ratings")
    if earlier and (earlier.choice, earlier.ratings) == (given.choice, ratings):
        return
    at, where = (rater, position), "WHERE rater = ? AND position = ?"
    if earlier:
        (before,) = db.execute(f"SELECT answer FROM entries {where}", at).fetchone()
        db.execute("INSERT INTO changes VALUES (?, ?, ?)", (*at, before))
        changed += json.loads(before)["changed"] + 1
    seconds = given.seconds if given.seconds is None or math.isfinite(given.seconds) else None
    row = AnswerRow(
        **item.model_dump(include={"pair", "kind", "asks", "expected", "category"}),
        rater=rater,
        item=item.id,
        again=entry.again,
        responses=study.responses_of[item.id],
        left="second" if entry.swapped else "first",
        choice=given.choice,
        ratings=ratings,
        seconds=seconds and min(max(seconds, 0.0), LONGEST),
        date=date or datetime.now(UTC).isoformat(timespec="seconds"),
        changed=changed,
    )
    db.execute(f"UPDATE entries SET answer = ? {where}", (row.model_dump_json(exclude=ADDED), *at))


def need_traits(study: Study, traits: Mapping[str, str]) -> None:
    """Raise `DataError` for a trait, or an option of it, that the questionnaire does not have."""
    options = {trait.name: trait.options for trait in study.plan.traits}
    for name, value in traits.items():
        if value not in options.get(name, ()):
            expected = " or ".join(options.get(name, ("no such trait",)))
            raise DataError(f"{name} = {value!r}: expected {expected}", field="traits")
