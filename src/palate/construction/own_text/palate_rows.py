"""palate's own rows, whose users wrote the `reference`, or else the `chosen` response."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from palate.construction.fields import date_of, possible_text, text_of
from palate.construction.own_text.entries import (
    ADAPT,
    EarlierText,
    Entries,
    OwnTextEntry,
    earlier_items,
    read_entries,
)
from palate.errors import DataError


def read_rows(files: list[Path]) -> Entries:
    """Yield rows; an item of the profile may name its `question`, and then its text is adapted to.

    Rows whose `split` is `adapt` stay in that split.
    """
    return read_entries(files, lambda row, name: _entry(row))


def _entry(row: Mapping[str, Any]) -> OwnTextEntry:
    name, question = text_of(row, "id"), text_of(row, "question")
    if row.get("turns"):
        raise DataError(
            "pairs of own texts are built for questions of one turn; leave the row out, or write "
            "the conversation into its question",
            field="turns",
        )
    text = possible_text(row, "reference") or possible_text(row, "chosen")
    if not text:
        raise DataError("expected the user's own text here or in `chosen`", field="reference")
    adapt = row.get("split") == ADAPT
    return OwnTextEntry(
        id=name,
        user=possible_text(row, "user_id") or name,
        question=question,
        source=question,
        text=text,
        earlier=() if adapt else tuple(map(_earlier, earlier_items(row))),
        date=date_of(row),
        category=possible_text(row, "category"),
        split=ADAPT if adapt else "test",
    )


def _earlier(item: Mapping[str, Any]) -> EarlierText:
    question = possible_text(item, "question") or None
    return EarlierText(
        id=possible_text(item, "id") or None,
        text=possible_text(item, "text"),
        question=question,
        source=question,
        date=date_of(item),
    )
