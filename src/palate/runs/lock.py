"""One writer of a result's folder at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from palate.errors import RunError, writing
from palate.files import flock

FILE = ".lock"


def lock(file: BinaryIO, folder: Path, *, wait: bool = False) -> None:
    """Lock an open file until it is closed; where another process has it, wait or close it.

    Raises `RunError`, naming the folder that is written, where it may not wait.
    """
    try:
        flock(file, wait=wait)
    except OSError as error:
        file.close()
        raise RunError(f"{folder}: another process is writing this run; wait for it") from error


@contextmanager
def locked(folder: Path, *, wait: bool = False) -> Iterator[None]:
    """Be the one writer of a folder, which is made where there is none; raises as `lock`."""
    with writing(folder, RunError):
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / FILE).open("ab")
    with file:
        lock(file, folder, wait=wait)
        yield
