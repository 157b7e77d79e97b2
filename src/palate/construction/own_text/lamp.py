"""LaMP: `*_questions.json` with `*_outputs.json` beside it, tasks 4 to 7."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from palate.construction.fields import as_mapping, date_of, possible_text, text_of
from palate.construction.own_text.entries import (
    EarlierText,
    Entries,
    OwnTextEntry,
    earlier_items,
)
from palate.data import files_of
from palate.data.json_array import read_json, read_parts
from palate.data.streams import PACKED
from palate.errors import DataError, UsageError


class Fields(NamedTuple):
    """Where an item of the profile holds what the user wrote, and what it was written on."""

    text: str
    source: str | None


TASKS = {
    "4": Fields("title", "text"),
    "5": Fields("title", "abstract"),
    "6": Fields("title", "text"),
    "7": Fields("text", None),
}
"""Headlines of articles, titles of abstracts, subjects of messages, tweets."""
JSON = tuple(f".json{packed}" for packed in ("", *PACKED))
NAME = re.compile(r"lamp[ _-]?(\d)", re.IGNORECASE)
INSTRUCTION = re.compile(r"(?:\S+ ){1,15}?\S*:\s+")
"""What stands before the first colon of an input, if that is at most sixteen words."""


def lamp_files(source: Path, outputs: Path | None) -> list[Path]:
    """Return the questions and their outputs; raises `UsageError` where one is not there."""
    if source.is_dir():
        listed = sorted(path for path in source.iterdir() if "_questions.json" in path.name)
        if len(listed) != 1:
            names = ", ".join(path.name for path in listed) or "none"
            raise UsageError(f"{source}: expected one *_questions.json, there are: {names}")
        (source,) = listed
    (questions,) = files_of(source)
    if not questions.name.endswith(JSON):
        raise UsageError(f"{questions}: expected a file that ends in {', '.join(JSON)}")
    beside = questions.with_name(questions.name.replace("questions", "outputs"))
    outputs = outputs or beside
    if not outputs.is_file() or outputs == questions:
        raise UsageError(f"{questions}: no outputs in {outputs}; name them with --outputs FILE")
    return [questions, outputs]


def read_lamp(files: list[Path]) -> Entries:
    """Yield the questions with their outputs; raises `DataError` for LaMP's label tasks."""
    questions, outputs = files
    fields = TASKS[_task(outputs)]
    # A private file on disk, which the system takes away even after a kill.
    with closing(sqlite3.connect("")) as golds:
        _keep_outputs(golds, outputs)
        number = 0
        for number, row in read_json(questions):
            try:
                yield _entry(as_mapping(row), fields, golds, outputs)
            except DataError as error:
                yield DataError(error.problem, file=str(questions), line=number, field=error.field)
        if not number:
            raise DataError("holds no question; expected a JSON list", file=str(questions))
        unused = golds.execute("SELECT id FROM golds WHERE used = 0 ORDER BY rowid").fetchall()
        for (name,) in unused:
            yield DataError(f"the output {name!r} has no question", file=str(outputs), field="id")


def _task(outputs: Path) -> str:
    name = next((part.value for part in read_parts(outputs) if part.name == "task"), None)
    match = NAME.search(name) if isinstance(name, str) else None
    if match is None:
        raise DataError(f"expected LaMP_4 to LaMP_7, got {name!r}", file=str(outputs), field="task")
    if match[1] not in TASKS:
        raise DataError(
            f"{name} asks for a label, so it holds no text of a user's; take LaMP 4, 5, 6 or 7",
            file=str(outputs),
            field="task",
        )
    return match[1]


def _keep_outputs(golds: sqlite3.Connection, outputs: Path) -> None:
    golds.execute("CREATE TABLE golds (id TEXT PRIMARY KEY, text TEXT, used INTEGER DEFAULT 0)")
    for number, row in read_json(outputs):
        try:
            gold = as_mapping(row)
            name = text_of(gold, "id")
            new = golds.execute(
                "INSERT OR IGNORE INTO golds (id, text) VALUES (?, ?)",
                (name, possible_text(gold, "output")),
            )
            if not new.rowcount:
                raise DataError(f"{name!r} is there twice", field="id")
        except DataError as error:
            raise DataError(
                error.problem, file=str(outputs), line=number, field=error.field
            ) from None


def _entry(
    row: Mapping[str, Any], fields: Fields, golds: sqlite3.Connection, outputs: Path
) -> OwnTextEntry:
    name, question = text_of(row, "id"), text_of(row, "input")
    gold = golds.execute("SELECT text FROM golds WHERE id = ?", (name,)).fetchone()
    if gold is None:
        raise DataError(f"the question {name!r} has no output in {outputs.name}", field="id")
    golds.execute("UPDATE golds SET used = 1 WHERE id = ?", (name,))
    if not gold[0]:
        raise DataError(f"the question {name!r} has an empty output in {outputs.name}", field="id")
    match = INSTRUCTION.match(question)
    instruction = match[0] if match else ""
    return OwnTextEntry(
        id=name,
        user=possible_text(row, "user_id") or name,
        question=question,
        source=question[len(instruction) :] or question,
        text=gold[0],
        earlier=tuple(_earlier(item, fields, instruction) for item in earlier_items(row)),
        date=date_of(row),
    )


def _earlier(item: Mapping[str, Any], fields: Fields, instruction: str) -> EarlierText:
    source = possible_text(item, fields.source) if fields.source else ""
    return EarlierText(
        id=possible_text(item, "id") or None,
        text=possible_text(item, fields.text),
        question=f"{instruction}{source}" if source else None,
        source=source or None,
        date=date_of(item),
    )
