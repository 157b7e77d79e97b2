"""Exchange with other tools: raters' lists for them, and the answers that they gathered."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from palate.data.jsonl import read_jsonl
from palate.errors import DataError
from palate.records import Record, problem_of
from palate.records.dates import DateText
from palate.study.folder import Study
from palate.study.records import AnswerRow, ListEntry, Score
from palate.study.store import sessions
from palate.study.store.database import Database, reading
from palate.study.store.sessions import GivenAnswer


class ImportedAnswer(Record):
    """What another tool says of an answer: by its side, or as the first or second text."""

    rater: str
    item: str
    again: bool = False
    choice: Literal["first", "second", "same", "skip", "left", "right"]
    ratings: Mapping[str, tuple[Score, Score] | Mapping[str, Score]] = {}
    seconds: Annotated[float, Field(ge=0)] | None = None
    date: DateText | None = None
    changed: Annotated[int, Field(ge=0)] = 0
    traits: Mapping[str, str] = {}


SIDES = ("first", "second")
LISTED = {"position", "question", "shown", "left", "right"}
UNREAD = (LISTED | AnswerRow.model_fields.keys()) - ImportedAnswer.model_fields.keys()


def rater_lists(study: Study) -> Iterator[dict[str, Any]]:
    """Yield what each rater is shown, in order; nothing tells pairs from checks."""
    with reading(study.folder, study.plan.hash) as db:
        raters = db.execute("SELECT rater FROM raters").fetchall()
        lists = {
            rater: [entry for entry, _ in sessions.session_of(db, rater)] for (rater,) in raters
        }
        free = sessions.free_places(db, study).items()
    lists |= {rater: sessions.planned_list(study, place) for rater, place in free}
    for rater in sorted(lists, key=lambda name: (len(name), name)):
        for position, entry in enumerate(lists[rater]):
            if (item := study.items.get(entry.item)) is not None:
                left, right = item.answers[:: -1 if entry.swapped else 1]
                yield {
                    **{"rater": rater, "position": position, "item": item.id, "asks": item.asks},
                    "question": [message.model_dump() for message in item.question],
                    "shown": [
                        {"category": part.category, "text": part.text} for part in item.shown
                    ],
                    **{"left": left, "right": right},
                }


def take_answers(database: Database, study: Study, path: Path) -> int:
    """Take the answers of a file, all or none, and return how many lines it has.

    Raises `DataError` with line and field for what fits neither the plan nor what is stored.
    """
    lines: dict[tuple[str, str, bool], int] = {}
    with database.transaction() as db:
        for line, value in read_jsonl(path):
            if isinstance(value, DataError):
                raise value
            try:
                row = value if isinstance(value, dict) else {"line": value}
                answer = ImportedAnswer(**{name: row[name] for name in row.keys() - UNREAD})
                earlier = lines.setdefault((answer.rater, answer.item, answer.again), line)
                if earlier < line:
                    raise DataError(f"answered in line {earlier} already", field="item")
                _take(db, study, answer, row.get("left"))
            except ValidationError as error:
                raise DataError(problem_of(error), file=str(path), line=line) from error
            except DataError as error:
                what, field = error.problem, error.field or "date"
                raise DataError(what, file=str(path), line=line, field=field) from error
    return len(lines)


def _take(db: sqlite3.Connection, study: Study, answer: ImportedAnswer, left: object) -> None:
    rater, name = answer.rater, (answer.item, answer.again)
    if not db.execute("SELECT 1 FROM raters WHERE rater = ?", (rater,)).fetchone():
        place, n = sessions.free_places(db, study).get(rater), rater[1:9]
        if place is not None:
            sessions.seat(db, study, rater, place)
        elif left in SIDES and n.isdecimal() and sessions.rater_name(study, int(n) - 1) == rater:
            # Exported: who took over a place. Of no place here, the list is what they answered.
            sessions.seat(db, study, rater, -1, arrived=0, entries=())
        else:
            raise DataError(f"{rater!r} is no rater of the plan", field="rater")
    if answer.item not in study.items:
        raise DataError(f"{answer.item!r} is no item of the plan, or forgotten", field="item")
    session = sessions.session_of(db, rater)
    listed = "SELECT place >= 0 AND ?, closed FROM raters WHERE rater = ?"
    has_list, closed = db.execute(listed, (study.plan.mode == "judge", rater)).fetchone()
    forgotten = closed and not session
    if not (has_list or forgotten or name in {(e.item, e.again) for e, _ in session}):
        added = ListEntry(item=answer.item, swapped=left == "second", again=answer.again)
        sessions.add_entries(db, rater, [added])
        session.append((added, None))
    position = next((k for k, (e, _) in enumerate(session) if (e.item, e.again) == name), None)
    if position is None:
        raise DataError(f"{answer.item} is not in the list of {rater}", field="item")
    entry, earlier = session[position]
    sides = ("right", "left") if entry.swapped else ("left", "right")
    fields = answer.model_dump(include={"choice", "ratings", "seconds"})
    fields["choice"] = dict(zip(sides, SIDES, strict=True)).get(*[answer.choice] * 2)
    for dimension, both in answer.ratings.items():
        if isinstance(both, Mapping):
            fields["ratings"][dimension] = [both.get(side) for side in sides]
    given = GivenAnswer.model_validate(fields)
    if earlier and (earlier.choice, earlier.ratings) != (given.choice, given.ratings):
        raise DataError(f"{rater} answered {answer.item} otherwise already", field="choice")
    sessions.write_answer(db, study, rater, position, given, answer.date, answer.changed)
    if answer.traits:
        sessions.write_traits(db, study, rater, answer.traits)
