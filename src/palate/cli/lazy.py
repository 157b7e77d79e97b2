"""Commands that are listed by a line of help, and imported when they are called."""

from __future__ import annotations

from pkgutil import resolve_name
from typing import Any

import typer
from typer.core import TyperCommand
from typer.main import get_command


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

    def make_context(self, *given: Any, **more: Any) -> Any:
        """Return a context of the command itself, in which it is called or completed."""
        return self.load().make_context(*given, **more)


def add_lazy(group: typer.Typer, name: str, line: str, target: str, *given: Any) -> None:
    """Add a command: `target` is `module:attribute`, or called with `given` returns the command."""

    def load() -> Any:
        found = resolve_name(target)
        return found(*given) if given else found

    group.command(name, cls=LazyCommand, help=line)(load)
