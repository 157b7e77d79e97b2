"""A completion of a trainer, as said to the user: the last text, without a thought."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from palate.marks import OpenThought, after_thought, prompt_end

EMPTY = "empty answer"
NO_MESSAGE = "no message of the assistant"
TEXTS = frozenset({"text", "output_text"})
"""Kinds of content blocks that the user reads; thoughts, pictures and calls are others."""


class Answer(NamedTuple):
    """What the user reads of a completion, or None with the reason."""

    text: str | None
    reason: str | None = None


def last_text(completion: Any) -> Answer:
    """Return the text of a completion: a text, or messages of which the last counts.

    A message's content is a text or a list of blocks. None where the last message is not the
    assistant's, such as a tool's.

    >>> last_text([{"role": "assistant", "content": [{"type": "text", "text": "Tea."}]}]).text
    'Tea.'
    >>> last_text([{"role": "assistant"}, {"role": "tool", "content": "21 °C"}]).reason
    'ends with a message of tool'
    """
    if completion is None or isinstance(completion, str):
        return Answer(completion or "")
    messages = [completion] if isinstance(completion, Mapping) else completion
    if not isinstance(messages, Sequence) or not messages:
        return Answer(None, NO_MESSAGE)
    last = messages[-1]
    if not isinstance(last, Mapping):
        return Answer(None, NO_MESSAGE)
    if (role := last.get("role", "assistant")) != "assistant":
        return Answer(None, f"ends with a message of {role}")
    return Answer(_joined(last.get("content")))


def row_number(value: Any) -> Any:
    """Return an id as text or number: trainers hold numbers in arrays and tensors, or as 7.0.

    A float that its own precision may have rounded stays a float, which is no id.
    """
    bits = {1: 3, 2: 8, 4: 24}.get(getattr(getattr(value, "dtype", None), "itemsize", 8), 53)
    plain = value.item() if getattr(value, "shape", None) in ((), (1,)) else value
    whole = isinstance(plain, float) and plain.is_integer() and abs(plain) < 2**bits
    return int(plain) if whole else plain


def with_thought(prompt: Any, completion: Any) -> Any:
    """Return a completion, begun by the mark of the thought that its text prompt ends within."""
    mark = prompt_end(prompt).mark if isinstance(prompt, str) else ""
    text = last_text(completion).text if mark else None
    return completion if text is None else mark + text


def spoken(text: str) -> Answer:
    """Return a text without the thought that opens it; None where nothing else is there.

    >>> spoken("<think>Tea or milk?</think>Tea.").text
    'Tea.'
    """
    if not text.strip():
        return Answer(None, EMPTY)
    try:
        answer = after_thought(text)
    except OpenThought as error:
        return Answer(None, str(error))
    if answer == text.strip():
        return Answer(text)
    return Answer(answer) if answer else Answer(None, EMPTY)


def _joined(content: Any) -> str:
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, Sequence) else ()
    return "".join(
        block if isinstance(block, str) else str(block.get("text") or "")
        for block in blocks
        if isinstance(block, str) or (isinstance(block, Mapping) and block.get("type") in TEXTS)
    )
