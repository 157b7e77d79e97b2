"""Which chat template a model is read with, and on which date: the one door to its Jinja."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

from palate.errors import ModelError
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
        told = {} if self.day is None else {"template_date": self.day.isoformat()}
        return {**told, **({"chat_template": digest(self.written)} if self.given else {})}

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
