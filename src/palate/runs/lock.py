"""One writer of a result's folder at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from palate.errors import RunError, writing

try:
    import fcntl
except ImportError:  # no flock on this system: the folder is trusted to one writer
    fcntl = None  # type: ignore[assignment]

FILE = ".lock"


def lock(file: BinaryIO, folder: Path) -> None:
    """Lock an open file until it is closed; where another process has it, close it.

    Raises `RunError`, naming the folder that is written.
    """
    if fcntl is None:
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        file.close()
        raise RunError(f"{folder}: another process is writing this run; wait for it") from error


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Be the one writer of a folder, which is made where there is none; raises as `lock`."""
    with writing(folder, RunError):
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / FILE).open("ab")
    with file:
        lock(file, folder)
        yield
