"""Inputs of `generate`: questions as texts or conversations, prompts as ids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from jinja2 import TemplateError
from pydantic import ValidationError

from palate.errors import UsageError, first_line
from palate.records import Message

Conversation = str | Sequence[Mapping[str, str]]


def conversations_of(
    questions: Conversation | Sequence[Conversation],
) -> list[tuple[Message, ...]]:
    """Return each question as messages; raises `UsageError` for one that asks nothing."""
    single = isinstance(questions, str) or (questions and isinstance(questions[0], Mapping))
    each = cast("Sequence[Conversation]", [questions] if single else questions)
    if not each:
        raise UsageError("no questions: give those whose answers generate is to write")
    batch = []
    for k, question in enumerate(each):
        turns = [{"role": "user", "content": question}] if isinstance(question, str) else question
        try:
            messages = tuple(Message.model_validate(turn) for turn in turns)
        except ValidationError as error:
            raise UsageError(
                f"question {k}: expected a text, or messages of a role (system, user, assistant) "
                f"and a text ({first_line(error)})"
            ) from error
        if not messages or messages[-1].role != "user" or not messages[-1].content.strip():
            raise UsageError(f"question {k}: expected a last message of the user, with a text")
        batch.append(messages)
    return batch


def template_ids(tokenizer: Any, conversations: Sequence[tuple[Message, ...]]) -> list[list[int]]:
    """Return the ids of conversations in a tokenizer's own chat template."""
    if not getattr(tokenizer, "chat_template", None):
        raise UsageError(
            f"{tokenizer.name_or_path}: the tokenizer has no chat template; give prompts= what "
            "generate is given"
        )
    turns = [[message.model_dump() for message in it] for it in conversations]
    try:  # as the caller's own call does, whatever day it is
        encoded = tokenizer.apply_chat_template(
            turns, add_generation_prompt=True, tokenize=True, return_dict=True
        )
    except (TemplateError, ValueError) as error:
        raise UsageError(
            f"{tokenizer.name_or_path}: its chat template writes no prompt ({first_line(error)}); "
            "give prompts= what generate is given"
        ) from error
    ids: list[list[int]] = encoded["input_ids"]
    return ids


def given_ids(prompts: Any) -> list[list[int]]:
    """Return the ids of a tokenizer's output, a tensor or lists, without padding on the left."""
    masks = None
    if isinstance(prompts, Mapping):
        masks = prompts.get("attention_mask")
        prompts = prompts["input_ids"]
    rows = _lists(prompts)
    if masks is None:
        return rows
    ids = []
    for k, (row, mask) in enumerate(zip(rows, _lists(masks), strict=True)):
        if mask != sorted(mask):
            raise UsageError(f"prompt {k} is not padded on the left; set tokenizer.padding_side")
        ids.append([token for token, there in zip(row, mask, strict=True) if there])
    return ids


def _lists(rows: Any) -> list[list[int]]:
    rows = rows.tolist() if hasattr(rows, "tolist") else list(rows)
    if rows and isinstance(rows[0], int):  # a tokenizer's output of a single text
        return [rows]
    return [list(row) for row in rows]
