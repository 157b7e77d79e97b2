"""Pairs as lines that RewardBench's own program reads: whole conversations, chosen and rejected."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from palate.errors import BenchmarkError
from palate.evaluation import ContextRows
from palate.prompts import as_text, render
from palate.records import PreferencePair

FIELDS = ("prompt", "chosen", "rejected", "id", "key", "subset")
ROLES = ("user", "assistant")


def rewardbench_lines(rows: ContextRows) -> Iterator[dict[str, Any]]:
    """Yield each pair under its context, as `palate.render` shows it to a classifier.

    `chosen` and `rejected` are conversations: their program reads a bare text only beside a prompt
    of messages, and no longer does with `datasets` from 4 on. A row whose stranger there is not is
    left out. Raises `BenchmarkError` for turns that do not alternate: the program reads no roles.
    """
    rows.prepare()
    for k in range(len(rows)):
        slate, pair = rows.slate(k), rows.questions[k // rows.draws]
        assert isinstance(pair, PreferencePair), "only a pair has a chosen response"
        if rows.no_stranger[k]:
            continue
        prompt = render(slate.question, slate.shown)
        if any(turn.role != ROLES[n % 2] for n, turn in enumerate(prompt)):
            raise BenchmarkError(
                f"row {rows.id(k)!r}: its turns are not user, assistant, user …, and RewardBench "
                "takes every second one for an assistant's; leave the row out"
            )
        turns = [turn.model_dump(include={"role", "content"}) for turn in prompt]
        closed = [
            [*turns, {"role": "assistant", "content": text}]
            for text in (pair.chosen, pair.rejected)
        ]
        values = as_text(prompt), *closed, rows.id(k), slate.prompt_key, pair.subset
        yield dict(zip(FIELDS, values, strict=True))
