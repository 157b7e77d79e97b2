"""The values that a shell offers to complete: the kinds that are installed."""

from collections.abc import Callable
from functools import partial
from importlib.metadata import entry_points
from typing import Annotated, Any

import typer
from typer.main import get_command

FLAGS = {
    "palate.benchmarks": ("-b", "--benchmark"),
    "palate.scorers": ("-s", "--scorer"),
    "palate.contexts": ("-c", "--context"),
}
"""The options whose values are names in an entry-point group, in every command alike."""


def names(group: str) -> list[str]:
    """Return the names in an entry-point group; `palate.specs` says what they stand for."""
    return sorted({point.name for point in entry_points(group=group)})


def names_in(group: str) -> Callable[[str], list[str]]:
    """Return what completes a value by the names in an entry-point group.

    >>> names_in("palate.benchmarks")("tas")
    ['tasting']
    """

    def complete(incomplete: str) -> list[str]:
        return [name for name in names(group) if name.startswith(incomplete)]

    return complete


def named(group: str) -> Callable[..., Any]:
    """Return what declares the option whose values are names in an entry-point group."""
    return partial(typer.Option, *FLAGS[group], autocompletion=names_in(group))


def command_of(flag: str) -> Any:
    """Return a command with this option alone, which loads no other; None for any other option."""
    group = next((group for group, flags in FLAGS.items() if flag in flags), None)
    if group is None:
        return None

    def complete(value: Annotated[str, named(group)()]) -> None:
        del value

    command = typer.Typer(add_completion=False)
    command.command(context_settings={"ignore_unknown_options": True})(complete)
    return get_command(command)
