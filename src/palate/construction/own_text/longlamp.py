"""LongLaMP: rows of input, output and profile; reviews, abstracts and posts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from palate.construction.fields import date_of, possible_text, text_of
from palate.construction.own_text.entries import (
    EarlierText,
    Entries,
    OwnTextEntry,
    earlier_items,
    read_entries,
)
from palate.errors import DataError


class Task(NamedTuple):
    """Where an item of the profile holds the user's text, and what it was written on."""

    text: str
    source: str
    more: tuple[str, ...]
    question: str
    """How an item's question begins."""


TASKS = {
    "reviewerId": Task("reviewText", "description", ("summary", "overall"), "Review this product."),
    "name": Task("abstract", "title", (), "Write the abstract of this paper."),
    "author": Task("content", "summary", (), "Write the post that this sums up."),
}
"""By the column that names the user."""
QUOTED = re.compile(r'"([^"]+)"')


def read_longlamp(files: list[Path]) -> Entries:
    """Yield the rows of files; what has no id is named by its file and number."""
    return read_entries(files, _entry)


def _entry(row: Mapping[str, Any], name: str) -> OwnTextEntry:
    named_by = next((column for column in TASKS if row.get(column) is not None), None)
    if named_by is None:
        raise DataError("expected a user in reviewerId, name or author", field="reviewerId")
    question, task = text_of(row, "input"), TASKS[named_by]
    return OwnTextEntry(
        id=possible_text(row, "id") or name,
        user=text_of(row, named_by),
        question=question,
        # The longest quotation: a product's description, a paper's title, a post's summary.
        source=max(QUOTED.findall(question), key=len, default=question),
        text=text_of(row, "output"),
        earlier=tuple(_earlier(item, task) for item in earlier_items(row)),
        date=date_of(row),
    )


def _earlier(item: Mapping[str, Any], task: Task) -> EarlierText:
    source = possible_text(item, task.source)
    more = ((name, possible_text(item, name)) for name in task.more)
    lines = [f"{name.capitalize()}: {text}" for name, text in more if text]
    return EarlierText(
        id=possible_text(item, "id") or None,
        text=possible_text(item, task.text),
        question="\n".join([task.question, source, *lines]) if source else None,
        source=source or None,
        date=date_of(item),
    )
