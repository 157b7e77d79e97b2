"""The columns of a row, and the posts of its profile, made of what a layout gave."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from palate.construction.own_text.entries import EarlierText, OwnTextEntry


def columns_of(
    entry: OwnTextEntry, question: str, written: OwnTextEntry | EarlierText
) -> dict[str, Any]:
    """Return the columns that hold who wrote what on which question."""
    columns = {
        "user_id": entry.user,
        "question": question,
        "chosen": written.text,
        "reference": written.text,
    }
    known = {
        "category": entry.category,
        "date": written.date,
        "attribution": written.attribution,
    }
    return columns | {name: value for name, value in known.items() if value}


def posts_of(items: Sequence[EarlierText]) -> list[dict[str, str]]:
    """Return a profile; a second post of one id gets a number behind it."""
    posts, names = [], Counter[str]()
    for item in items:
        post = {"text": item.text}
        if item.id:
            names[item.id] += 1
            post["id"] = item.id if names[item.id] == 1 else f"{item.id}-{names[item.id]}"
        if item.date:
            post["date"] = item.date
        posts.append(post)
    return posts
