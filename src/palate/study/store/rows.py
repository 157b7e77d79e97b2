"""Answers as rows: of a study's database, or of a file that was exported."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from pathlib import Path
from typing import Any

from palate.errors import DataError, RunError
from palate.records import problem_of
from palate.study.folder import Study, read_study
from palate.study.records import AnswerRow
from palate.study.store.database import FILE, reading

BY_RATER = "ORDER BY length(rater), rater, position"


def read_answers(source: Study | Path) -> list[AnswerRow]:
    """Read the answers of a study, or of an exported file; works while the study is served.

    Raises `RunError` for no study, `DataError` for a line that is no answer.
    """
    if isinstance(source, Path):
        if not source.is_dir():
            return _exported(source)
        source = read_study(source)
    if not (source.folder / FILE).exists():
        return []
    with reading(source.folder, source.plan.hash) as db:
        return answer_rows(db, source)


def answer_rows(db: sqlite3.Connection, study: Study) -> list[AnswerRow]:
    """Return every answer, with the benchmark's rows behind it and whether its rater counts."""
    records: list[dict[str, Any]] = []
    failed: Counter[str] = Counter()
    for rater, item, facts, choice, ratings, seconds, date, changed, traits in db.execute(
        "SELECT rater, item, facts, choice, ratings, seconds, date, changed, traits FROM answers "
        f"JOIN entries USING (rater, position) JOIN raters USING (rater) {BY_RATER}"
    ):
        record = {"rater": rater, "item": item, **json.loads(facts), "choice": choice}
        gold = study.gold_of.get(item, ())
        chosen = sorted({row.chosen for row in gold})
        failed[rater] += record["kind"] == "check" and choice != record["expected"]
        records.append(
            record
            | {
                "contexts": sorted({row.context for row in gold}),
                "rows": [(row.context, row.row) for row in gold],
                "gold": "both" if len(chosen) == 2 else chosen[0] if chosen else None,
                "ratings": json.loads(ratings),
                "seconds": seconds,
                "date": date,
                "changed": changed,
                "traits": json.loads(traits or "{}"),
            }
        )
    most = study.plan.most_failed_checks
    return [
        AnswerRow.model_validate({**record, "excluded": failed[record["rater"]] > most})
        for record in records
    ]


def _exported(path: Path) -> list[AnswerRow]:
    rows = []
    try:
        with path.open(encoding="utf-8", newline="\n") as file:
            for number, line in enumerate(file, 1):
                try:
                    rows.append(AnswerRow.model_validate_json(line))
                except ValueError as error:
                    raise DataError(problem_of(error), file=str(path), line=number) from error
    except (OSError, UnicodeDecodeError) as error:
        raise RunError(f"{path}: cannot be read ({problem_of(error)})") from error
    return rows
