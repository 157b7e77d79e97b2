"""The words of a study's pages, its questionnaire and its consent: palate's or a file's."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

from palate.errors import UsageError
from palate.records import Record, problem_of
from palate.study.records import Trait

SIDES = ("a", "b")


class PageTexts(Record):
    """Words by name, and the questionnaire."""

    texts: Mapping[str, str]
    traits: tuple[Trait, ...] = ()


def read_page_texts(path: Path | None = None) -> PageTexts:
    """Return the words of the pages; a file names the very texts that palate's own names.

    Raises `UsageError` for a file that cannot be read or is not so.
    """
    usual = PageTexts.model_validate(tomllib.loads(_usual("texts.toml")))
    if path is None:
        return usual
    try:
        given = PageTexts.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise UsageError(f"--texts {path}: cannot be read ({problem_of(error)})") from error
    ends = [key for key in given.texts if key.endswith("_expected")]
    wrong = [
        *(f"`texts.{key}` is unknown" for key in given.texts.keys() - usual.texts.keys()),
        *(f"`texts.{key}` is missing" for key in usual.texts.keys() - given.texts.keys()),
        *(f"`texts.{key}`: expected a or b" for key in ends if given.texts[key] not in SIDES),
    ]
    if len({trait.name for trait in given.traits}) < len(given.traits):
        wrong.append("two traits have one name")
    if wrong:
        raise UsageError(f"--texts {path}: {min(wrong)}")
    return given


def read_consent(path: Path | None = None) -> str:
    """Return what raters agree to, in Markdown; raises `UsageError` for no such text."""
    try:
        text = _usual("consent.md") if path is None else path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise UsageError(f"--consent {path}: cannot be read ({problem_of(error)})") from error
    if not text.strip():
        raise UsageError(f"--consent {path}: is empty; write what raters agree to")
    return text


def _usual(name: str) -> str:
    return (files("palate.study.pages") / name).read_text(encoding="utf-8")
