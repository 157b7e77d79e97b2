"""A row of the contract made of a choice, and the split that its question falls into."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import uuid4

from palate.data.rows import read_question
from palate.errors import UsageError
from palate.records import Message, conversation, normal_form, question_key
from palate.seeding import unit


def choice_row(
    user: str, question: str, chosen: str, rejected: str, *, split: str, date: str, **more: Any
) -> dict[str, Any]:
    """Return a user's choice as a row; of `more` columns, those that hold something.

    The id is random unless `more` has one; turns are messages. Raises `DataError` naming the field
    for a row that breaks the contract.

    >>> row = choice_row("ann", "Tea?", "Yes.", "No.", split="adapt", date="2026-11-27", tie=False)
    >>> list(row)
    ['id', 'user_id', 'question', 'chosen', 'rejected', 'split', 'date']
    """
    row: dict[str, Any] = {"id": uuid4().hex, "user_id": user, "question": question}
    row |= {"chosen": chosen, "rejected": rejected, "split": split, "date": date}
    row |= {name: value for name, value in more.items() if value}
    if "turns" in row:
        row["turns"] = [turn.model_dump() for turn in more["turns"]]
    read_question(row, subset="all")
    return row


def choice_key(question: str, turns: Sequence[Message] = ()) -> str:
    """Return what tells a question with its turns from others: their normal form as it is read.

    >>> choice_key(" Tea? ")
    'Tea?'
    """
    *before, last = conversation(turns, question)
    return question_key(before, last.content, normal_form)


def split_of(key: str, *, test_share: float, seed: int) -> str:
    """Return `test` or `adapt`, the split of all choices on a question, by its `choice_key`.

    A hash puts this share of questions into `test`; a larger one keeps those. Raises `UsageError`
    for what is no share.

    >>> split_of("Tea?", test_share=0, seed=0)
    'adapt'
    """
    if not 0 <= test_share <= 1:
        raise UsageError(f"--test-share {test_share:g}: expected a share, from 0 to 1")
    return "test" if unit("test question", seed, key) < test_share else "adapt"
