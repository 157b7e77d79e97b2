"""Hashes (the same through every file format), names and splits; what gives an answer away."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from typing import Any
from uuid import uuid4

from palate.data.rows import KNOWN, MadeId, asked_title, read_question, telling_turns
from palate.data.types import is_missing, tidied
from palate.errors import UsageError
from palate.records import Message, Question, QuestionView, conversation, normal_form, question_key
from palate.seeding import canonical_json, digest, unit
from palate.words import opening

OF_CONTENT = KNOWN - {"id", "mirror_of"}
CELLS = json.JSONEncoder(sort_keys=True, default=repr)
MAY_BE_JSON = re.compile(r'[ \t\n\r]*(?:["[{\d-]|(?:[Tt]rue|[Ff]alse|null|NaN|Infinity)\s*\Z)')
"""Of the texts of a file nearly all are told by their first character to be no JSON."""


def made_id(row: Mapping[str, Any], before: dict[str, int]) -> MadeId:
    """Return a row's name by what it holds; of equal rows the second ends in `-2`.

    No format, order of the rows or column that palate does not know changes it. `before` counts the
    rows of each name. Raises `DataError` for a cell that cannot be read.

    >>> made_id({"question": "Tea?", "chosen_rating": "4.0"}, {}) == made_id(
    ...     {"chosen_rating": 4, "question": "Tea?", "profile": None}, {})
    True
    """
    tidy = {name: value for name, value in tidied(row).items() if name in OF_CONTENT}
    name = digest("row", _json({n: v for n, v in tidy.items() if v is not False and v != []}))[:16]
    before[name] = count = before.get(name, 0) + 1
    return MadeId(f"{name}-{count}" if count > 1 else name)


def typed(value: object) -> Any:
    """Return a value as a format with types has it; a cell that holds nothing is left out.

    >>> typed({"n": "5", "mean": 5.0, "flag": "True", "code": "007", "list": '["a"]', "none": ""})
    {'n': 5, 'mean': 5, 'flag': True, 'code': '007', 'list': ['a']}
    """
    if isinstance(value, str):
        return _typed_text(value)
    if isinstance(value, dict | Mapping):
        cells = {str(name): typed(cell) for name, cell in value.items()}
        return {name: cell for name, cell in cells.items() if cell is not None}
    if isinstance(value, list | tuple):
        return [typed(part) for part in value]
    if isinstance(value, float) and math.isfinite(value) and value == int(value):
        return int(value)
    if isinstance(value, date):
        return value.isoformat()
    return None if is_missing(value) else value


def _typed_text(text: str) -> Any:
    if not MAY_BE_JSON.match(text):
        return text or None
    try:
        return typed(json.loads({"True": "true", "False": "false"}.get(text, text)))
    except (ValueError, RecursionError):  # 007 is no number
        return text or None


def content_hash(rows: Iterable[Question]) -> str:
    """Return the hash of the rows' content, in their order."""
    running = hashlib.sha256()
    for row in rows:
        known = canonical_json(row.to_row())
        running.update(f"{known}\n{_json(row.extra)}\n".encode())
    return running.hexdigest()


def _json(cells: Mapping[str, Any]) -> str:
    # Cells may hold anything: bytes, sets, what another library has.
    return CELLS.encode(typed(cells))


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


OPENING = 120


def forbidden_texts(view: QuestionView) -> tuple[str, ...]:
    """Return the openings no shown post may hold: of question, turns and responses.

    First 120 characters of their normal form in lower case (in scripts without spaces as much text:
    33 in Chinese): of the question its first line, of the user's earlier turns those of 30 bytes or
    more.
    """
    title, turns = asked_title(view.text), telling_turns(view.turns)
    openings = (opening(text, OPENING) for text in (title, *(turn.lower() for turn in turns)))
    return (*(text for text in openings if text), *forbidden_responses(view))


def forbidden_responses(view: QuestionView) -> tuple[str, ...]:
    """Return the openings of responses, which no past choice may hold; its question may return."""
    return tuple(opening(plain, OPENING) for plain in map(normal, view.responses) if plain)


def leaks(text: str, forbidden: tuple[str, ...]) -> bool:
    """Tell whether a text holds one of the forbidden openings.

    >>> leaks("Once more: why  TEA? Because.", ("why tea?",))
    True
    """
    return holds(normal(text), forbidden)


def holds(plain: str, forbidden: tuple[str, ...]) -> bool:
    """Tell the same of a text that is normal already."""
    return any(beginning in plain for beginning in forbidden)


def normal(text: str) -> str:
    """Return a text's normal form in lower case."""
    return normal_form(text).lower()
