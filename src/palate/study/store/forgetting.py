"""Forgetting: of a rater nothing stays, of a user of the data nothing that they wrote."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from palate.errors import UsageError, writing
from palate.files import write_whole
from palate.records import user_key
from palate.study.folder import GOLD, ITEMS, read_study
from palate.study.store.database import Database, arrival_token, hashed

EXPORTS, LINKS = "exports", "links.csv"
UNKNOWN = "the study has no such rater, and nobody arrived under this id"


def rater_named(db: sqlite3.Connection, name: str) -> str | None:
    """Return the rater of this name, or who arrived under it."""
    named = (name, hashed(arrival_token(db, name)))
    row = db.execute("SELECT rater FROM raters WHERE rater = ? OR token = ?", named).fetchone()
    return row and str(row[0])


def forget_rater(database: Database, folder: Path, name: str) -> str:
    """Delete all that is kept of a rater, and return which; the name alone is never given again.

    It may be done once more where bytes stayed. Raises `UsageError` for an unknown rater,
    `ResourceError` where deleted bytes stay in a file, as another program reads it.
    """
    with database.transaction() as db:
        rater = rater_named(db, name)
        if rater is None:
            raise UsageError(f"{name}: {UNKNOWN}")
        for table in ("entries", "changes"):
            db.execute(f"DELETE FROM {table} WHERE rater = ?", (rater,))
        row = "SELECT rater, place, 1 FROM raters WHERE rater = ?"
        db.execute(f"REPLACE INTO raters (rater, place, closed) {row}", (rater,))
        _drop_lines(folder / LINKS, lambda line: line.startswith(f"{rater},"))
        _drop_exported(folder, lambda row: rater in (row.get("rater"), row.get("user_id")))
    database.truncate_log()
    return rater


def forget_user(database: Database, folder: Path, user: str) -> int:
    """Drop every item that holds what a user of the data wrote, and their gold.

    Answers to them stay. Returns how many items and rows that were, 0 for an unknown user.
    """
    with database.transaction():  # nobody else forgets a user meanwhile
        study, key = read_study(folder), user_key(user)
        gold = tuple(row for row in study.gold if row.user != key)
        items = {name: item for name, item in study.items.items() if key not in item.users}
        gone = study.items.keys() - items.keys()
        if n := len(gone) + len(study.gold) - len(gold):

            def holds_texts(row: dict[str, Any]) -> bool:
                item = row.get("item", str(row.get("id")).rpartition("-")[2])
                return "choice" not in row and item in gone

            _drop_exported(folder, holds_texts)
            with writing(folder):
                replace(study, items=items, gold=gold).write_items()
        return n


def close_raters(database: Database, name: str | None) -> str:
    """Take no more answers of a rater, or of anybody; raises `UsageError` for an unknown name."""
    with database.transaction() as db:
        rater = name and rater_named(db, name)
        if name and rater is None:
            raise UsageError(f"{name}: {UNKNOWN}")
        if rater is None:
            db.execute("INSERT OR IGNORE INTO study VALUES ('closed', 'all')")
        db.execute("UPDATE raters SET closed = 1 WHERE rater = ifnull(?, rater)", (rater,))
        return rater or "all raters"


def _drop_exported(folder: Path, drops: Callable[[dict[str, Any]], bool]) -> None:
    for path in folder.rglob("*.jsonl"):
        if path not in (folder / ITEMS, folder / GOLD):
            _drop_lines(path, lambda line: drops(json.loads(line)))


def _drop_lines(path: Path, drops: Callable[[str], bool]) -> None:
    with writing(path):
        lines = path.read_text(encoding="utf-8").split("\n")[:-1] if path.exists() else []
        staying = [f"{line}\n" for line in lines if not drops(line)]
        if len(staying) < len(lines):
            write_whole(path, staying)
            path.chmod(0o600)
