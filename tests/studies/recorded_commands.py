"""The commands of a study, kept in place of being run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from typer.main import get_command

from palate.cli import app
from studies.commands import Commands


@dataclass(frozen=True)
class Recorded(Commands):
    """Keeps commands in place of running them."""

    commands: list[list[str]] = field(default_factory=list)

    def run(self, *arguments: str, to: str | None = None) -> None:
        """Keep one command."""
        del to
        self.commands.append([*arguments])


def parse(commands: list[list[str]]) -> None:
    """Parse each as palate does, without running it; raises what palate would refuse."""
    palate: Any = get_command(app)
    for arguments in commands:
        group, rest, given = palate, arguments, None
        while hasattr(group, "resolve_command"):
            given = group.make_context("palate", [], parent=given, resilient_parsing=True)
            name, group, rest = group.resolve_command(given, rest)
        group.make_context(name, rest, parent=given)
