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


def lock(file: BinaryIO, folder: Path, *, wait: bool = False) -> None:
    """Lock an open file until it is closed; where another process has it, wait or close it.

    Raises `RunError`, naming the folder that is written, where it may not wait.
    """
    if fcntl is None:
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
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
