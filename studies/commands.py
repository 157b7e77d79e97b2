"""A study's steps: plain `palate` commands, printed before they run, and timed."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Commands:
    """Runs `palate` in the folder of a study; what is finished is not computed again."""

    folder: Path

    def run(self, *arguments: str, to: str | None = None) -> None:
        """Run one command; its output goes to a file where one is named.

        How long it took is added to times.tsv. Raises `CalledProcessError` where it fails.
        """
        sys.stderr.write(f"$ palate {' '.join(arguments)}{f' > {to}' if to else ''}\n")
        begun = time.monotonic()
        part = self.folder / f"{to}.part" if to else Path("/dev/null")
        with part.open("w") as file:
            command = [sys.executable, "-m", "palate", *arguments]
            subprocess.run(command, cwd=self.folder, stdout=file, check=True)
        if to:
            part.replace(self.folder / to)
        with (self.folder / "times.tsv").open("a") as times:
            times.write(f"{time.monotonic() - begun:.0f}\t{' '.join(arguments)}\n")

    def train(self, method: str, output: str, *arguments: str) -> None:
        """Train a model, unless its folder is there."""
        if not (self.folder / output).exists():
            self.run("train", method, *arguments, "-o", output)


def each(flag: str, values: Sequence[str]) -> list[str]:
    """Return a flag once for each value.

    >>> each("-s", ["longest", "random"])
    ['-s', 'longest', '-s', 'random']
    """
    return [part for value in values for part in (flag, value)]
