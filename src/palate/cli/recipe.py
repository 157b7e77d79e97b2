"""Options that rarely change, read from `palate.toml` or `--recipe FILE`."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

from palate.errors import UsageError, first_line

USUAL = Path("palate.toml")
"""In the working directory: a table of options by command."""


def recipe_words(words: Sequence[str]) -> Path | None:
    """Return the file that a command line names by `--recipe`.

    >>> recipe_words(["-b", "tasting", "--recipe", "mine.toml"])
    PosixPath('mine.toml')
    """
    for at, word in enumerate(words):
        if word == "--":
            return None
        name, _, value = word.partition("=")
        value = value or "".join(words[at + 1 : at + 2])
        if name == "--recipe" and value:
            return Path(value)
    return None


class Option(NamedTuple):
    """The parameter of an option."""

    name: str
    multiple: bool


def file_options(
    command: Sequence[str],
    known: Mapping[str, Option],
    words: Sequence[str],
    commands: Sequence[str],
) -> dict[str, Any]:
    """Return the options of a command that stand in files, by the parameter's name.

    `command` is its path, such as `train`, `lore`; `known` are its options, named without dashes.
    What `--recipe` says counts before `palate.toml`, and the command line before both.

    Raises `UsageError` for a file that cannot be read, and for an option that is unknown.
    """
    options: dict[str, Any] = {}
    if USUAL.is_file():
        table: Any = _read(USUAL)
        for name in table:
            _known(name, [each for each in commands if " " not in each], f"{USUAL}: no command")
        for name in command:
            table = table.get(name, {}) if isinstance(table, dict) else table
        for name in (name.split() for name in commands):
            if name[:-1] == [*command] and isinstance(table, dict):
                table.pop(name[-1], None)  # what `[export.rewardbench]` says to `export`
        options |= dict(_options(USUAL, table, known))
    recipe = recipe_words(words)
    if recipe is not None:
        options |= dict(_options(recipe, _read(recipe), known))
    return options


def _options(file: Path, given: Any, known: Mapping[str, Option]) -> Iterator[tuple[str, Any]]:
    if not isinstance(given, dict):
        raise UsageError(f"{file}: expected a table of options by command, such as [evaluate]")
    for name, value in given.items():
        text = name.replace("_", "-")
        _known(text, list(known), f"{file}: no option")
        option = known[text]
        if isinstance(value, list) and not option.multiple:
            raise UsageError(f"{file}: {name}: expected one value")
        yield option.name, [value] if option.multiple and not isinstance(value, list) else value


def _known(name: str, names: Sequence[str], what: str) -> None:
    if name not in names:
        near = get_close_matches(name, names, 1)
        hint = f"; did you mean {near[0]}?" if near else f" (known: {', '.join(sorted(names))})"
        raise UsageError(f"{what} {name!r}{hint}")


def _read(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{file}: no readable TOML ({first_line(error)})") from error
