"""Answers as rows: of a study's database, or of a file that was exported."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter, defaultdict
from pathlib import Path
from statistics import median
from typing import Any

from palate.data.jsonl import read_jsonl
from palate.errors import DataError
from palate.records import problem_of
from palate.study.folder import Study, read_study
from palate.study.records import AnswerRow
from palate.study.store.database import reading
from palate.study.store.sessions import state_of


def read_answers(source: Study | Path) -> list[AnswerRow]:
    """Read the answers of a study, or of an exported file; works while the study is served.

    Raises `RunError` for no study, `DataError` for a line that is no answer.
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
        return list(lines.values())
    study = read_study(source) if isinstance(source, Path) else source
    with reading(study.folder, study.plan.hash) as db:
        return answer_rows(db, study)


def answer_rows(db: sqlite3.Connection, study: Study) -> list[AnswerRow]:
    """Return every answer, with the benchmark's rows behind it and whether its rater counts."""
    stored = db.execute(
        "SELECT traits, answer FROM entries JOIN raters USING (rater) WHERE answer IS NOT NULL "
        "ORDER BY length(rater), rater, position"
    ).fetchall()
    answers = [(json.loads(traits) or {}, json.loads(answer)) for traits, answer in stored]
    failed = Counter(
        row["rater"]
        for _, row in answers
        if row["kind"] == "check" and row["choice"] != row["expected"]
    )
    rows = []
    for traits, row in answers:
        excluded = failed[row["rater"]] > study.plan.most_failed_checks
        added = {**gold_fields(study, row["item"]), "traits": traits, "excluded": excluded}
        rows.append(AnswerRow.model_validate({**row, **added}))
    return rows


def gold_fields(study: Study, item: str) -> dict[str, Any]:
    """Return what an answer's row says of the benchmark's rows behind its item."""
    gold = study.gold_of.get(item, ())
    chosen = sorted({each.chosen for each in gold})
    return {
        "contexts": sorted({each.context for each in gold}),
        "rows": [[each.context, each.row] for each in gold],
        "gold": "both" if len(chosen) > 1 else next(iter(chosen), None),
    }


def progress_of(study: Study) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return how far each rater is, and the answers by category and trait; none needs gold.

    `left` is the share of choices for the left answer, `seconds` the median of an answer.
    """
    with reading(study.folder, study.plan.hash) as db:
        closed = dict(db.execute("SELECT rater, closed FROM raters ORDER BY length(rater), rater"))
        states = [state_of(db, study, rater) for rater in closed]
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
                **{"rater": state.rater, "state": ", ".join(filter(flags.get, flags))},
                **{"answered": state.answered, "total": state.total},
                "seconds": median(times) if times else None,
                **{"left": sum(left) / len(left) if left else None, "sides": len(left)},
                **{"failed": passed.count(False), "checks": len(passed)},
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
