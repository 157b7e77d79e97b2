"""The words of a study's pages, its questionnaire and its consent: palate's or a file's."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

from palate.errors import UsageError
from palate.records import Record, problem_of
from palate.study.records import Trait


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
    differing = sorted(given.texts.keys() ^ usual.texts.keys())
    if differing:
        what = "unknown" if differing[0] in given.texts else "missing"
        raise UsageError(f"--texts {path}: `texts.{differing[0]}` is {what}")
    if len({trait.name for trait in given.traits}) < len(given.traits):
        raise UsageError(f"--texts {path}: two traits have one name")
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
