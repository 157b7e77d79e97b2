"""Answers as rows: of a study's database, or of a file that was exported."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path
from statistics import median
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from palate.data import read_jsonl
from palate.errors import DataError
from palate.records import Record, problem_of
from palate.records.dates import DateText
from palate.study.database import Database, GivenAnswer, Sessions, reading
from palate.study.records import AnswerRow, ListEntry, Score, Study, read_study

SIDES = ("first", "second")
LISTED = {"position", "question", "shown", "left", "right"}


def read_answers(source: Study | Path) -> list[AnswerRow]:
    """Read the answers of a study, or of an exported file; works while the study is served.

    In a file of several plans raters are named `r01@PLAN`. Raises `RunError` for no study,
    `DataError` for a line that is no answer, and for studies without plans in one file.
    """
    if isinstance(source, Path) and not source.is_dir():
        lines = dict(read_jsonl(source))
        for line, value in lines.items():
            if isinstance(value, DataError):
                raise value
            try:
                lines[line] = AnswerRow.model_validate(value)
            except ValueError as error:
                raise DataError(problem_of(error), file=str(source), line=line) from error
        return _raters_apart(list(lines.values()), source)
    study = read_study(source) if isinstance(source, Path) else source
    with reading(study.folder, study.plan.hash) as db:
        return answer_rows(db, study)


def _raters_apart(rows: list[AnswerRow], path: Path) -> list[AnswerRow]:
    """Name raters by their plan where there are several; r01 of each is somebody else."""
    plans, problem = {row.plan for row in rows}, None
    if None in plans:
        problem = "some lines have none" if len(plans) > 1 else _several_studies(rows)
    if problem:
        remedy = "export each study anew, so that each line names its plan"
        raise DataError(f"{problem}; {remedy}", file=str(path), field="plan")
    if len(plans) < 2:
        return rows
    return [row.model_copy(update={"rater": f"{row.rater}@{str(row.plan)[:8]}"}) for row in rows]


def _several_studies(rows: list[AnswerRow]) -> str | None:
    """Say why answers without a plan are of several studies; None where they may be of one.

    One export stands behind another where raters come back, and to other items only. A file that
    is sorted by items is no such file.
    """
    traits: dict[str, Mapping[str, str]] = {}
    stretches: list[tuple[set[str], set[str]]] = []  # raters and items until a rater comes back
    rater = None
    for row in rows:
        if row.traits and traits.setdefault(row.rater, row.traits) != row.traits:
            return f"{row.rater} has two sets of traits, so two people have this name"
        if row.kind == "pair":
            if not stretches or (row.rater != rater and row.rater in stretches[-1][0]):
                stretches.append((set(), set()))
            stretches[-1][0].add(rater := row.rater)
            stretches[-1][1].add(row.item)
    pairs = [row.item for row in rows if row.kind == "pair"]
    n_items, n_runs = len(set(pairs)), sum(1 for _ in groupby(pairs))
    by_item = n_runs == n_items < len(pairs)
    disjoint = sum(len(items) for _, items in stretches) == n_items
    if by_item or not disjoint or sum(len(items) > 1 for _, items in stretches) < 2:
        return None
    return "raters come back, to other items only, as those of another study would"


def answer_rows(db: sqlite3.Connection, study: Study) -> list[AnswerRow]:
    """Return every answer, with the benchmark's rows behind it and whether its rater counts."""
    stored = db.execute(
        "SELECT traits, answer FROM entries JOIN raters USING (rater) WHERE answer IS NOT NULL "
        "ORDER BY length(rater), rater, position"
    ).fetchall()
    answers = [(json.loads(traits) or {}, json.loads(answer)) for traits, answer in stored]
    checks = (row for _, row in answers if row["kind"] == "check")
    failed = Counter(row["rater"] for row in checks if row["choice"] != row["expected"])
    rows = []
    for traits, row in answers:
        excluded = failed[row["rater"]] > study.plan.most_failed_checks
        added = {"plan": study.plan.hash, "traits": traits, "excluded": excluded}
        added |= gold_fields(study, row["item"])
        rows.append(AnswerRow.model_validate({**row, **added}))
    return rows


def gold_fields(study: Study, item: str) -> dict[str, Any]:
    """Return what an answer's row says of the benchmark's rows behind its item."""
    gold = study.gold_of.get(item, ())
    chosen = sorted({row.chosen for row in gold})
    return {
        "contexts": sorted({row.context for row in gold}),
        "rows": [[row.context, row.row] for row in gold],
        "gold": "both" if len(chosen) > 1 else next(iter(chosen), None),
    }


def progress_of(study: Study) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return how far each rater is, and the answers by category and trait; none needs gold.

    `left` is the share of choices for the left answer, `seconds` the median of an answer.
    """
    with reading(study.folder, study.plan.hash) as db:
        closed = dict(db.execute("SELECT rater, closed FROM raters ORDER BY length(rater), rater"))
        states = [Sessions(db, study).state(rater) for rater in closed]
        rows = answer_rows(db, study)
    raters = []
    for state in states:
        answers = [row for row in rows if row.rater == state.rater]
        times = [row.seconds for row in answers if row.seconds is not None]
        left = [row.choice == row.left for row in answers if row.choice in ("first", "second")]
        passed = [row.choice == row.expected for row in answers if row.kind == "check"]
        flags = {
            "finished": state.finished and state.answered > 0,
            "closed": closed[state.rater],
            "excluded": any(row.excluded for row in answers),
        }
        raters.append(
            {
                "rater": state.rater,
                "state": ", ".join(filter(flags.get, flags)),
                "answered": state.answered,
                "total": state.total,
                "seconds": median(times) if times else None,
                "left": sum(left) / len(left) if left else None,
                "sides": len(left),
                "failed": passed.count(False),
                "checks": len(passed),
            }
        )
    counts: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for row in rows:
        for trait in ("", *(f"{name}: {value}" for name, value in row.traits.items())):
            if row.kind == "pair":
                counts[row.category, trait].update((row.choice, "answered"))
    names = ("answered", "same", "skip")
    return raters, [
        {"category": category, "trait": trait, **{name: n[name] for name in names}}
        for (category, trait), n in sorted(counts.items())
    ]


def rater_lists(study: Study) -> Iterator[dict[str, Any]]:
    """Yield what each rater is shown, in order; nothing tells pairs from checks."""
    with reading(study.folder, study.plan.hash) as db:
        sessions = Sessions(db, study)
        raters = [name for (name,) in db.execute("SELECT rater FROM raters")]
        lists = {rater: [entry for entry, _ in sessions.session(rater)] for rater in raters}
        lists |= {name: sessions.planned(place) for name, place in sessions.free_places().items()}
    for rater in sorted(lists, key=lambda name: (len(name), name)):
        for position, entry in enumerate(lists[rater]):
            if (item := study.items.get(entry.item)) is not None:
                left, right = item.answers[:: -1 if entry.swapped else 1]
                yield {
                    "rater": rater,
                    "position": position,
                    "item": item.id,
                    "asks": item.asks,
                    "question": [message.model_dump() for message in item.question],
                    "shown": [{"category": p.category, "text": p.text} for p in item.shown],
                    "left": left,
                    "right": right,
                }


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


UNREAD = (LISTED | AnswerRow.model_fields.keys()) - ImportedAnswer.model_fields.keys()


def take_answers(database: Database, study: Study, path: Path) -> int:
    """Take a file's answers, all or none; return their number; `DataError` for one that misfits."""
    lines: dict[tuple[str, str, bool], int] = {}
    with database.transaction() as db:
        for line, value in read_jsonl(path):
            if isinstance(value, DataError):
                raise value
            try:
                row = value if isinstance(value, dict) else {"line": value}
                if row.get("plan") not in (None, study.plan.hash):
                    raise DataError("an answer to another plan", field="plan")
                answer = ImportedAnswer(**{name: row[name] for name in row.keys() - UNREAD})
                earlier = lines.setdefault((answer.rater, answer.item, answer.again), line)
                if earlier < line:
                    raise DataError(f"answered in line {earlier} already", field="item")
                _take_answer(Sessions(db, study), answer, row.get("left"))
            except ValidationError as error:
                raise DataError(problem_of(error), file=str(path), line=line) from error
            except DataError as error:
                what, field = error.problem, error.field or "date"
                raise DataError(what, file=str(path), line=line, field=field) from error
    return len(lines)


def _take_answer(sessions: Sessions, answer: ImportedAnswer, left: object) -> None:
    rater, name = answer.rater, (answer.item, answer.again)
    db, study = sessions
    if not db.execute("SELECT 1 FROM raters WHERE rater = ?", (rater,)).fetchone():
        place, n = sessions.free_places().get(rater), rater[1:9]
        if place is not None:
            sessions.seat(rater, place, sessions.planned(place))
        elif left in SIDES and n.isdecimal() and sessions.rater_name(int(n) - 1) == rater:
            # Exported: who took over a place. Of no place here, the list is what they answered.
            sessions.seat(rater, -1, (), arrived=0)
        else:
            raise DataError(f"{rater!r} is no rater of the plan", field="rater")
    if answer.item not in study.items:
        raise DataError(f"{answer.item!r} is no item of the plan, or forgotten", field="item")
    session = sessions.session(rater)
    listed = "SELECT place >= 0 AND ?, closed FROM raters WHERE rater = ?"
    has_list, closed = db.execute(listed, (study.plan.mode == "judge", rater)).fetchone()
    is_forgotten = closed and not session
    if not (has_list or is_forgotten or name in {(e.item, e.again) for e, _ in session}):
        added = ListEntry(item=answer.item, swapped=left == "second", again=answer.again)
        sessions.append(rater, [added])
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
    sessions.write_answer(rater, position, given, answer.date, answer.changed)
    if answer.traits:
        sessions.write_traits(rater, answer.traits)
