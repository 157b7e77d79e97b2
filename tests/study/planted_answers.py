"""Answers of planted raters, as an export has them."""

from __future__ import annotations

import random
from collections.abc import Iterable
from pathlib import Path

from palate.runs import VerdictRow
from palate.study import DIMENSIONS, AnswerRow


def written(path: Path, rows: Iterable[AnswerRow]) -> Path:
    """Write answers as an export has them."""
    path.write_text("".join(f"{row.model_dump_json()}\n" for row in rows), encoding="utf-8")
    return path


OTHER = {"first": "second", "second": "first", "same": "same", "skip": "skip", "both": "both"}


def answer(rater: int, item: int, **more: object) -> AnswerRow:
    """Return an answer to an item of which the first answer is gold, under `none`."""
    texts = (f"Answer {item}", f"Brief {item}")
    return AnswerRow.model_validate(
        {
            "rater": f"r{rater:02d}",
            "item": VerdictRow.hash_of(f"item {item}"),
            "pair": VerdictRow.hash_of(f"pair {item}"),
            "asks": "better",
            "contexts": ("none",),
            "rows": (("none", f"row{item}"),),
            "responses": tuple(map(VerdictRow.hash_of, texts)),
            "gold": "first",
            "left": "first",
            "choice": "first",
            "date": "2026-11-27T10:00:00Z",
            **more,
        }
    )


def check(
    rater: int, number: int, *, passed: bool = True, apart: int = 3, **more: object
) -> AnswerRow:
    """Return an answer to a check, whose first answer is expected."""
    return answer(
        rater,
        1000 + number,
        kind="check",
        gold=None,
        contexts=(),
        rows=(),
        expected="first",
        choice="first" if passed else "same",
        ratings=dict.fromkeys(DIMENSIONS, (5, 5 - apart)),
        **more,
    )


def panel_of(
    raters: int, items: int, seed: int, *, difference: float = 0, checks: int = 4
) -> list[AnswerRow]:
    """Return all answers of raters to all items, and to their checks; gold stands on any side."""
    stream, rows = random.Random(seed), []
    for item in range(items):
        gold = stream.choice(("first", "second"))
        level, apart = stream.gauss(3.4, 0.6), stream.gauss(difference, 0.3)
        for rater in range(raters):
            chosen, rejected = (level + sign * apart / 2 + stream.gauss(0, 0.6) for sign in (1, -1))
            pair = [min(5, max(1, round(value))) for value in (chosen, rejected)]
            choice = gold if chosen > rejected else OTHER[gold]
            both = tuple(pair if gold == "first" else pair[::-1])
            ratings = dict.fromkeys(DIMENSIONS, both)
            rows.append(answer(rater, item, gold=gold, choice=choice, ratings=ratings))
    rows += [
        check(rater, k, apart=stream.choice((2, 3, 4)))
        for rater in range(raters)
        for k in range(checks)
    ]
    return rows


def exchanged(row: AnswerRow) -> AnswerRow:
    """Return the answer as if the item's two answers had stood the other way round."""
    return row.model_copy(
        update={
            "responses": row.responses[::-1],
            "choice": OTHER[row.choice],
            "left": OTHER[row.left],
            "gold": row.gold and OTHER[row.gold],
            "expected": row.expected and OTHER[row.expected],
            "ratings": {name: scores[::-1] for name, scores in row.ratings.items()},
        }
    )
