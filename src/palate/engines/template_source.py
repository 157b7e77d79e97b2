"""A chat template before it is used: which, on which date, and the marks that it writes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, TemplateError

from palate.errors import ModelError
from palate.marks import BRACKETED, HEADING, PLAIN_ROLE, TURN, thoughts_among
from palate.records import Settings
from palate.seeding import digest

DATE = date(2024, 7, 26)
"""What a template that reads the clock is told, unless `--template-date` says otherwise: Llama 3's
templates write this date where there is no clock."""
CLOCK = re.compile(r"\bstrftime_now\b")
DATED = re.compile(r"\b(strftime_now|date_string)\b")
THOUGHT_OPTION = re.compile(r"\benable_thinking\b")
CODES = "aAbBcCdDeFgGhHIjklmMnpPrRStTuUVwWxXyYzZ"
FILES = ("*.jinja", "*/*.jinja", "tokenizer_config.json", "chat_template.json")
"""Files of a model that may hold its templates."""
SENTINEL = "qzvx"
"""A word of each message by which a template is asked what it writes around one."""
ROLES = (("system", "user", "assistant", "user"), ("user", "assistant", "user"), ("user",))
Render = Callable[[Sequence[Mapping[str, str]], bool], str]
"""From turns, and whether a prompt to go on from is asked for, to what a template writes."""
SAME = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
CANONICAL = {"NFC": 3, "NFD": 3}
"""Bytes that a byte becomes at most (Unicode's report 15, section 12)."""


class TemplateSource(NamedTuple):
    """A chat template as it is rendered, the date written into it where it reads the clock."""

    written: str
    """The template without what palate puts before it."""
    given: bool = False
    """True where `--chat-template` named it, since the tokenizer has no default one."""
    day: date | None = None
    """The date that it is told; None where it reads none."""

    @property
    def text(self) -> str:
        """The template that is rendered."""
        return self.written if self.day is None else _dated(self.written, self.day) + self.written

    @property
    def details(self) -> dict[str, str]:
        """What numbers depend on beside the tokenizer's own files."""
        details = {} if self.day is None else {"template_date": self.day.isoformat()}
        return {**details, **({"chat_template": digest(self.written)} if self.given else {})}

    @property
    def answering(self) -> str:
        """The template that is rendered where a response stands at once, without a thought."""
        if not THOUGHT_OPTION.search(self.written):
            return self.text
        return f"{{% set enable_thinking = false %}}\n{self.text}"


def read_source(tokenizer: Any, settings: Settings) -> TemplateSource:
    """Return the template of a tokenizer; raises `ModelError` where there is none to take."""
    given, where = settings.chat_template, tokenizer.name_or_path
    listed = tokenizer.chat_template
    named: dict[str, str] = listed if isinstance(listed, dict) else {}
    text = named.get("default") if named else listed
    if text:
        return TemplateSource(text, day=_date_for(text, settings))
    text = named.get(given or "", given)
    if text is None or "{" not in text:  # the name of a template that is not there
        lacks = "no default one among its chat templates" if named else "no chat template"
        lacks = f"no chat template {text!r}" if text else lacks
        advice = "; give one with --chat-template FILE, or take an instruct model"
        if named:
            listed = ", ".join(sorted(named))
            advice = f" ({listed}); name one of them, or a file, with --chat-template"
        raise ModelError(f"{where}: the tokenizer has {lacks}{advice}")
    return TemplateSource(text, given=True, day=_date_for(text, settings))


def may_name(folder: Path, names: re.Pattern[str]) -> bool:
    """Tell whether a model's template may hold what matches, without loading its tokenizer."""
    files = {file for pattern in FILES for file in folder.glob(pattern)}
    return any(names.search(file.read_text(encoding="utf-8", errors="replace")) for file in files)


def _date_for(template: str, settings: Settings) -> date | None:
    if CLOCK.search(template):
        return settings.template_date or DATE
    return settings.template_date if DATED.search(template) else None


def _dated(template: str, day: date) -> str:
    """Return Jinja that stands for the clock: transformers passes no function to a template."""
    if not CLOCK.search(template):  # Llama 3.1 takes a date in Llama 3.2's form
        return f"{{% set date_string = '{day:%d %b %Y}' %}}\n"
    codes = {f"%{sign}{code}": _written(day, sign, code) for sign in ("-", "") for code in CODES}
    steps = "".join(f"|replace({code!r},{value!r})" for code, value in codes.items())
    body = f"{{{{ format|replace('%%','\\x00'){steps}|replace('\\x00','%') }}}}"
    return f"{{% macro strftime_now(format) %}}{body}{{% endmacro %}}\n"


def _written(day: date, sign: str, code: str) -> str:
    text = day.strftime(f"%{code}")
    return text.strip().lstrip("0") or "0" if sign else text


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
    for turns in ([{"role": role, "content": SENTINEL} for role in listed] for listed in ROLES):
        written = ""
        with suppress(TemplateError):  # such as a template without a system role
            written = render(turns, True)
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


def tokens_per_byte(tokenizer: Any) -> int | None:
    """Return how many tokens a byte of UTF-8 can make, or None where the tokenizer is another kind.

    Of any tokenizer, a token stands for a byte or more of the normalised text. So the question is
    what normalising adds; one mark before a text is not counted.
    """
    backend = tokenizer.backend_tokenizer
    factor = 1
    for step in _steps(backend.normalizer, "normalizers"):
        if step["type"] in CANONICAL:
            factor *= CANONICAL[step["type"]]
        elif step["type"] != "Prepend" and step != SAME:
            return None
    kinds = [step["type"] for step in _steps(backend.pre_tokenizer, "pretokenizers")]
    marks = "▁" in f"{backend.normalizer}{backend.pre_tokenizer}" or "Metaspace" in kinds
    if marks and backend.token_to_id("▁") is None:  # else a space is one token, not three bytes
        return None
    return factor


def _steps(part: Any, inner: str) -> list[dict[str, Any]]:
    if part is None:
        return []
    made: dict[str, Any] = json.loads(part.__getstate__())
    return list(made[inner]) if made["type"] == "Sequence" else [made]
