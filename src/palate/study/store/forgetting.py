"""Forgetting: of a rater nothing stays, of a user of the data nothing that they wrote."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from palate.errors import ResourceError, UsageError, writing
from palate.files import write_whole
from palate.records import user_key
from palate.study.folder import Study, read_study
from palate.study.store.database import Database
from palate.study.store.places import arrival_token, hashed

EXPORTS, LINKS = "exports", "links.csv"


def rater_named(db: sqlite3.Connection, name: str) -> str | None:
    """Return the rater of this name, or who arrived under it."""
    named = (name, hashed(arrival_token(db, name)))
    row = db.execute("SELECT rater FROM raters WHERE rater = ? OR token = ?", named).fetchone()
    return row and str(row[0])


def forget_rater(database: Database, study: Study, name: str) -> str:
    """Delete all that is kept of a rater, and return the rater.

    It may be done again, where bytes stayed the first time.

    Raises:
        UsageError: where there never was such a rater.
        ResourceError: where deleted bytes stay in a file, as another program reads it.
    """
    with database.transaction() as db:
        rater = rater_named(db, name)
        if rater is None:
            raise UsageError(f"{name}: the study has no such rater, and nobody arrived so")
        for table in ("entries", "changes"):
            db.execute(f"DELETE FROM {table} WHERE rater = ?", (rater,))
        row = "SELECT rater, place, 1 FROM raters WHERE rater = ?"
        db.execute(f"REPLACE INTO raters (rater, place, closed) {row}", (rater,))
        _drop_lines(study.folder / LINKS, lambda line: line.startswith(f"{rater},"))
        names = {"rater": rater, "user_id": rater}.items()
        _drop_exported(study.folder, lambda row: not names.isdisjoint(row.items()))
    database.truncate_log()
    return rater


def forget_user(database: Database, folder: Path, user: str) -> int:
    """Drop every item that holds what a user wrote, and their gold; return how many items.

    Raises `UsageError` where the study has nothing of theirs.
    """
    with database.transaction():  # nobody else forgets a user meanwhile
        study, key = read_study(folder), user_key(user)
        gold = tuple(row for row in study.gold if row.user != key)
        items = {name: item for name, item in study.items.items() if key not in item.users}
        n = len(study.items) - len(items)
        if not n and len(gold) == len(study.gold):
            raise UsageError(f"{user}: the study has no such rater, and nothing of such a user")
        gone = study.items.keys() - items.keys()
        _drop_exported(folder, lambda row: "choice" not in row and row.get("item") in gone)
        with writing(folder, ResourceError):
            replace(study, items=items, gold=gold).write_items()
    return n


def close(database: Database, name: str | None) -> str:
    """Take no more answers of a rater, or of anybody; raises `UsageError` for an unknown name."""
    with database.transaction() as db:
        if name is None:
            db.execute("INSERT OR IGNORE INTO study VALUES ('closed', 'all')")
            db.execute("UPDATE raters SET closed = 1")
            return "all raters"
        if (rater := rater_named(db, name)) is None:
            raise UsageError(f"{name}: the study has no such rater, and nobody arrived so")
        db.execute("UPDATE raters SET closed = 1 WHERE rater = ?", (rater,))
        return rater


def _drop_exported(folder: Path, drops: Callable[[dict[str, object]], bool]) -> None:
    for path in sorted((folder / EXPORTS).glob("*.jsonl")):
        _drop_lines(path, lambda line: drops(json.loads(line)))


def _drop_lines(path: Path, drops: Callable[[str], bool]) -> None:
    with writing(path, ResourceError):
        lines = path.read_text(encoding="utf-8").split("\n")[:-1] if path.exists() else []
        staying = [f"{line}\n" for line in lines if not drops(line)]
        if len(staying) < len(lines):
            write_whole(path, staying)
            path.chmod(0o600)
