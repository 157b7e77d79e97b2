"""Answers as rows: of a study's database, or of a file that was exported."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from pathlib import Path

from palate.data.jsonl import read_jsonl
from palate.errors import DataError
from palate.records import problem_of
from palate.study.folder import Study, read_study
from palate.study.records import AnswerRow
from palate.study.store.database import FILE, reading


def read_answers(source: Study | Path) -> list[AnswerRow]:
    """Read the answers of a study, or of an exported file; works while the study is served.

    Raises `RunError` for no study, `DataError` for a line that is no answer.
    """
    if isinstance(source, Path) and not source.is_dir():
        return [_exported(source, line, value) for line, value in read_jsonl(source)]
    study = read_study(source) if isinstance(source, Path) else source
    if not (study.folder / FILE).exists():
        return []
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
        gold = study.gold_of.get(row["item"], ())
        chosen = sorted({each.chosen for each in gold})
        row |= {
            "contexts": sorted({each.context for each in gold}),
            "rows": [(each.context, each.row) for each in gold],
            "gold": "both" if len(chosen) > 1 else next(iter(chosen), None),
            "traits": traits,
            "excluded": failed[row["rater"]] > study.plan.most_failed_checks,
        }
        rows.append(AnswerRow.model_validate(row))
    return rows


def _exported(path: Path, line: int, value: object) -> AnswerRow:
    if isinstance(value, DataError):
        raise value
    try:
        return AnswerRow.model_validate(value)
    except ValueError as error:
        raise DataError(problem_of(error), file=str(path), line=line) from error
