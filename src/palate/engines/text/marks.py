"""Marks in a text that would open or close a turn: added tokens, and those of a template."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from jinja2 import Environment, TemplateError

from palate.errors import ModelError

BRACKETED = re.compile(r"<{1,2}[^<>\s]+>{1,2}|\[{1,2}[^\[\]\s]+\]{1,2}")
"""`<|im_start|>`, `</think>`, `<<SYS>>`, `[INST]`."""
HEADING = re.compile(r"^#{2,}.*[^\s#]|\b[A-Z]{3,}:$")
"""`### Instruction:` and `USER:`, where they stand right before a text."""
SIGNS = re.compile(r"[<>\[\]{}|#｜]")
SENTINEL = "qzvx"
"""A word of each message by which a template is asked what it writes around one."""
ROLES = (("system", "user", "assistant", "user"), ("user", "assistant", "user"), ("user",))

Render = Callable[[Sequence[Mapping[str, str]], bool], str]
"""From turns, and whether a prompt to go on from is asked for, to what a template writes."""


def marks_of(tokenizer: Any, source: str, render: Render) -> list[str]:
    """Return what is broken in a text, so that no text opens or closes a turn.

    These are the tokenizer's special tokens; its other added tokens that have a bracket, a bar or a
    hash; and what the template writes or looks for in brackets, or right before a text as a heading
    (`### Instruction:`) or in capitals (`USER:`). Ordinary words, line breaks and single characters
    are none.
    """
    added = tokenizer.added_tokens_decoder.values()
    special = {*tokenizer.all_special_tokens, *(str(t) for t in added if t.special)}
    marks = {token for token in special if len(token) > 1}
    marks |= {str(t) for t in added if len(str(t)) > 2 and SIGNS.search(str(t))}
    for literal in _literals(source, str(tokenizer.name_or_path)):
        marks.update(BRACKETED.findall(literal))
    for written in _conversations(render):
        for part in written.split(SENTINEL):
            marks.update(BRACKETED.findall(part))
            marks.update(HEADING.findall((part.strip().splitlines() or [""])[-1]))
    return sorted(marks)


def _literals(source: str, where: str) -> Iterator[str]:
    try:
        for token in Environment().lexer.tokenize(source):
            if token.type in ("data", "string"):
                yield str(token.value)
    except TemplateError as error:
        raise ModelError(f"{where}: the chat template is no Jinja ({error})") from error


def _conversations(render: Render) -> Iterator[str]:
    for roles in ROLES:
        turns = [{"role": role, "content": SENTINEL} for role in roles]
        try:
            yield render(turns, True)
        except TemplateError:  # such as a template without a system role
            continue
