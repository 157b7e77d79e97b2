"""Forgetting: of a rater nothing stays, of a user of the data nothing that they wrote."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from palate.errors import ResourceError, UsageError, writing
from palate.files import write_whole
from palate.study.folder import Study
from palate.study.store.database import OF_A_RATER, Database

EXPORTS, LINKS = "exports", "links.csv"


def forget_rater(database: Database, study: Study, rater: str) -> int:
    """Delete all that is kept of a rater and return how many answers that were.

    It may be done again, where bytes stayed the first time.

    Raises:
        UsageError: where there never was such a rater.
        ResourceError: where deleted bytes stay in a file, as another program reads it.
    """
    with database.transaction() as db:
        if not db.execute("SELECT 1 FROM names WHERE rater = ?", (rater,)).fetchone():
            raise UsageError(f"{rater}: the study has no such rater")
        n = db.execute("SELECT count(*) FROM answers WHERE rater = ?", (rater,)).fetchone()[0]
        for table in OF_A_RATER:
            db.execute(f"DELETE FROM {table} WHERE rater = ?", (rater,))
    forget_link(study.folder / LINKS, rater)
    forget_exported(study.folder, lambda row: rater in (row.get("rater"), row.get("user_id")))
    database.truncate_log()
    return int(n)


def forget_link(path: Path, rater: str) -> None:
    """Drop a rater's line from the file of personal links."""
    if not path.exists():
        return
    with writing(path, ResourceError):
        rows = list(csv.reader(path.read_text(encoding="utf-8").splitlines()))
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(row for row in rows if rater not in row)
        write_whole(path, text.getvalue())
        path.chmod(0o600)


def forget_exported(folder: Path, drops: Callable[[Mapping[str, Any]], bool]) -> None:
    """Drop lines of what was exported into the study's folder."""
    for path in sorted((folder / EXPORTS).glob("*.jsonl")):
        with writing(path, ResourceError):
            lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
            staying = [line for line in lines if not drops(json.loads(line))]
            if len(staying) < len(lines):
                write_whole(path, staying)
                path.chmod(0o600)
