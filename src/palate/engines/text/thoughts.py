"""A thought that a prompt leaves open, closed before anything is read behind it."""

from __future__ import annotations

import re

THOUGHT = re.compile(r"think|thought|reasoning", re.I)
"""What a template, or a tokenizer, names that knows of thoughts."""
OPEN = re.compile(r"([<\[])(\|?[\w:]*(?:think|thinking|thought|reasoning)\|?)([>\]])\s*\Z", re.I)


def before_thought(prompt: str) -> str:
    """Return a prompt without the mark that opens a thought at its end.

    >>> before_thought("<|assistant|><think>")
    '<|assistant|>'
    """
    opened = OPEN.search(prompt)
    return prompt if opened is None else prompt[: opened.start()]


def without_thought(prompt: str) -> str:
    r"""Return a prompt behind which a response stands: an open thought is closed, and empty.

    >>> without_thought("<|assistant|><think>\n")
    '<|assistant|><think>\n\n</think>\n\n'
    >>> without_thought("<|assistant|>")
    '<|assistant|>'
    """
    opened = OPEN.search(prompt)
    if opened is None:
        return prompt
    return f"{prompt.rstrip()}\n\n{opened[1]}/{opened[2]}{opened[3]}\n\n"
