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
    """Words by name, the questionnaire, and what raters agree to, in Markdown."""

    texts: Mapping[str, str]
    traits: tuple[Trait, ...] = ()
    consent: str = ""


def read_page_texts(texts: Path | None = None, consent: Path | None = None) -> PageTexts:
    """Return what pages say; a file of texts names the very ones that palate's own names.

    Raises `UsageError` for a file that cannot be read or is not so.
    """
    usual = PageTexts.model_validate(tomllib.loads(_read(None, "texts.toml"))).texts
    agreed = _read(consent, "consent.md")
    if not agreed.strip():
        raise UsageError(f"--consent {consent}: is empty; write what raters agree to")
    try:
        given = tomllib.loads(_read(texts, "texts.toml"))
        pages = PageTexts.model_validate({**given, "consent": agreed})
    except ValueError as error:
        raise UsageError(f"--texts {texts}: cannot be read ({problem_of(error)})") from error
    wrong = [
        *(f"`texts.{key}` is unknown" for key in pages.texts.keys() - usual.keys()),
        *(f"`texts.{key}` is missing" for key in usual.keys() - pages.texts.keys()),
        *(
            f"`texts.{key}`: expected a or b"
            for key, text in pages.texts.items()
            if key.endswith("_expected") and text not in ("a", "b")
        ),
        *("two traits have one name" for _ in pages.traits[len({t.name for t in pages.traits}) :]),
    ]
    if wrong:
        raise UsageError(f"--texts {texts}: {min(wrong)}")
    return pages


def _read(path: Path | None, name: str) -> str:
    try:
        return (path or files("palate.study.pages") / name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        flag = name.partition(".")[0]
        raise UsageError(f"--{flag} {path}: cannot be read ({problem_of(error)})") from error
