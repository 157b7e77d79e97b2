"""The marks of a model that are broken in a text, and those that stay in a reply."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any

from jinja2 import Environment, TemplateError

from palate.errors import ModelError
from palate.marks import BRACKETED, HEADING, PLAIN_ROLE, TURN, thoughts_among

SENTINEL = "qzvx"
"""A word of each message by which a template is asked what it writes around one."""
ROLES = (("system", "user", "assistant", "user"), ("user", "assistant", "user"), ("user",))

Render = Callable[[Sequence[Mapping[str, str]], bool], str]
"""From turns, and whether a prompt to go on from is asked for, to what a template writes."""


def marks_of(tokenizer: Any, source: str, render: Render) -> tuple[list[str], list[str]]:
    """Return what is broken in a text, so that no text opens or closes a turn: anywhere, in lines.

    Anywhere these are the tokenizer's special tokens; its other added tokens that look like the
    mark of a turn; and what the template writes or looks for in brackets, or right before a text as
    a heading (`### Instruction:`) or in capitals (`USER:`). At the beginning of a line these are
    the roles that the template writes in plain words (`Human:`). Ordinary words, tokens for HTML,
    line breaks and single characters are none.
    """
    added = [str(token) for token in tokenizer.added_tokens_decoder.values()]
    marks = {token for token in special_tokens(tokenizer) if len(token) > 1}
    marks |= {token for token in added if len(token) > 2 and TURN.search(token)}
    for literal in _literals(source, str(tokenizer.name_or_path)):
        marks.update(BRACKETED.findall(literal))
    roles: set[str] = set()
    for written in _conversations(render):
        for part in written.split(SENTINEL):
            marks.update(BRACKETED.findall(part))
            line = (part.strip().splitlines() or [""])[-1]
            marks.update(HEADING.findall(line))
            roles.update(PLAIN_ROLE.findall(BRACKETED.sub("", line).strip()))
    return sorted(marks), sorted(roles - marks)


def special_tokens(tokenizer: Any) -> set[str]:
    """Return the tokens that decoding may leave out."""
    added = tokenizer.added_tokens_decoder.values()
    return {*tokenizer.all_special_tokens, *(str(token) for token in added if token.special)}


def decoded(tokenizer: Any, ids: Sequence[int]) -> str:
    """Return the text of tokens without the special ones, but for those that mark a thought."""
    dropped = _dropped(tokenizer, len(tokenizer))
    return str(tokenizer.decode([token for token in ids if token not in dropped]))


@lru_cache(maxsize=4)
def _dropped(tokenizer: Any, size: int) -> frozenset[int]:
    """Return the ids that `decoded` leaves out."""
    special = special_tokens(tokenizer)
    return frozenset(tokenizer.convert_tokens_to_ids(sorted(special - thoughts_among(special))))


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
        with suppress(TemplateError):  # such as a template without a system role
            yield render(turns, True)
