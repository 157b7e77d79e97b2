"""Commands that are listed by a line of help, and imported when they are called."""

from __future__ import annotations

import math
from pkgutil import resolve_name
from typing import Any

import typer
from typer.core import TyperCommand
from typer.main import get_command

from palate.cli.completion import command_of
from palate.errors import UsageError


class LazyCommand(TyperCommand):
    """A command whose callback returns what it stands for: a function, or a group."""

    def load(self) -> Any:
        """Return the command itself."""
        assert self.callback is not None
        loaded = self.callback()
        if not isinstance(loaded, typer.Typer):
            group = typer.Typer(add_completion=False)
            group.command(self.name)(loaded)
            loaded = group
        return get_command(loaded)

    def make_context(
        self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any
    ) -> Any:
        """Return a context of the command itself, in which it is called or completed."""
        if extra.get("resilient_parsing"):
            flag = args[-1] if args else ""
            return (command_of(flag) or self.load()).make_context(info_name, args, parent, **extra)
        context = self.load().make_context(info_name, args, parent, **extra)
        refuse_non_finite(context)
        return context


def refuse_non_finite(context: Any) -> None:
    """Raise `UsageError` for an option that was given NaN or infinity, whatever it means."""
    for option in context.command.params:
        given = context.params.get(option.name)
        for value in given if isinstance(given, list | tuple) else (given,):
            if isinstance(value, float) and not math.isfinite(value):
                raise UsageError(f"{max(option.opts, key=len)} {value}: expected a finite number")


def add_lazy(group: typer.Typer, name: str, line: str, target: str, *given: Any) -> None:
    """Add a command: `target` is `module:attribute`, or called with `given` returns the command."""

    def load() -> Any:
        command = resolve_name(target)
        return command(*given) if given else command

    group.command(name, cls=LazyCommand, help=line)(load)
