"""Forgetting: of a rater nothing stays, of a user of the data nothing that they wrote."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from palate.errors import UsageError, writing
from palate.files import ENDING, write_whole
from palate.records import user_key
from palate.seeding import canonical_json
from palate.study.folder import GOLD, ITEMS, LINKS, read_study
from palate.study.store.database import Database, hashed, token_of
from palate.study.store.rows import gold_fields

EXPORTS = "exports"
UNKNOWN = "the study has no such rater, and nobody arrived under this id"


def rater_named(db: sqlite3.Connection, name: str) -> str | None:
    """Return the rater of this name, or who arrived under it."""
    named = (name, hashed(token_of(db, "arrival", name)))
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
        if (links := folder / LINKS).exists():
            of_rater = re.compile(rf"\W*{rater}\b")
            _rewrite(links, lambda line: "" if of_rater.match(line) else line)
        _rewrite_exported(
            folder,
            lambda row: (
                rater not in (row.get("rater"), str(row.get("user_id")).rpartition("-")[2]) and row
            ),
        )
    database.truncate_log()
    return rater


def forget_user(database: Database, folder: Path, user: str) -> int:
    """Drop every item that holds what a user of the data wrote, and their gold.

    Answers to them stay, exported ones too, without the user's rows. Returns how many items and
    rows that were, 0 for an unknown user.
    """
    with database.transaction():  # nobody else forgets a user meanwhile
        study, key = read_study(folder), user_key(user)
        gold = tuple(row for row in study.gold if row.user != key)
        items = {name: item for name, item in study.items.items() if key not in item.users}
        gone = study.items.keys() - items.keys()
        if n := len(gone) + len(study.gold) - len(gold):
            staying = replace(study, items=items, gold=gold)

            def without(row: dict[str, Any]) -> dict[str, Any] | bool:
                item = row.get("item", str(row.get("id")).rpartition("-")[2])
                if item not in gone:
                    return row
                return "choice" in row and row | gold_fields(staying, item)

            _rewrite_exported(folder, without)
            with writing(folder):
                staying.write_items()
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


def _rewrite_exported(
    folder: Path, changed: Callable[[dict[str, Any]], dict[str, Any] | bool]
) -> None:
    """Write the exported lines that change anew, less those for which nothing stays."""

    def rewritten(line: str) -> str:
        try:
            row = json.loads(line)
        except ValueError:
            return line
        new = changed(row) if isinstance(row, dict) else row
        return line if new == row else f"{canonical_json(new)}\n" if new else ""

    for place in (folder, folder / EXPORTS):
        for left in place.glob(f".*{ENDING}"):  # a killed writer's: the transaction has no other
            left.unlink(missing_ok=True)
    for path in folder.rglob("*.jsonl"):
        if path not in (folder / ITEMS, folder / GOLD):
            _rewrite(path, rewritten)


def _rewrite(path: Path, changed: Callable[[str], str]) -> None:
    with writing(path):
        with path.open(encoding="utf-8", errors="surrogateescape", newline="\n") as file:
            lines = list(file)
        new = [changed(line) for line in lines]
        if new != lines:
            write_whole(path, new, "surrogateescape")
            path.chmod(0o600)
