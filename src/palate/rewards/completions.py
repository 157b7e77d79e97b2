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


def last_text(completion: Any, prompt: Any = None) -> Answer:
    """Return the text of a completion: a text, or messages of which the last counts.

    A message's content is a text or a list of blocks. None where the last message is not the
    assistant's, such as a tool's. The thought that a text prompt ends within begins the text.

    >>> last_text([{"role": "assistant", "content": [{"type": "text", "text": "Tea."}]}]).text
    'Tea.'
    >>> last_text([{"role": "assistant"}, {"role": "tool", "content": "21 °C"}]).reason
    'ends with a message of tool'
    """
    if completion is None or isinstance(completion, str):
        completion = {"content": completion or ""}
    messages = [completion] if isinstance(completion, Mapping) else completion
    last = messages[-1] if isinstance(messages, Sequence) and messages else None
    if not isinstance(last, Mapping):
        return Answer(None, NO_MESSAGE)
    if (role := last.get("role", "assistant")) != "assistant":
        return Answer(None, f"ends with a message of {role}")
    mark = prompt_end(prompt).mark if isinstance(prompt, str) else ""
    return Answer(mark + _joined(last.get("content")))


def row_number(value: Any) -> Any:
    """Return an id as text or number: trainers hold numbers in arrays and tensors, or as 7.0.

    A float that its own precision may have rounded stays a float, which is no id.
    """
    bits = {1: 3, 2: 8, 4: 24}.get(getattr(getattr(value, "dtype", None), "itemsize", 8), 53)
    plain = value.item() if getattr(value, "shape", None) in ((), (1,)) else value
    whole = isinstance(plain, float) and plain.is_integer() and abs(plain) < 2**bits
    return int(plain) if whole else plain


def spoken(text: str) -> Answer:
    """Return a text without the thought that opens it; None where that thought does not end.

    >>> spoken("<think>Tea or milk?</think>Tea.").text
    'Tea.'
    """
    try:
        answer = after_thought(text)
    except OpenThought as error:
        return Answer(None, str(error))
    return Answer(text if answer == text.strip() else answer)


def _joined(content: Any) -> str:
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, Sequence) else ()
    return "".join(
        block if isinstance(block, str) else str(block.get("text") or "")
        for block in blocks
        if isinstance(block, str) or (isinstance(block, Mapping) and block.get("type") in TEXTS)
    )
