"""The append-only journal of a run: what was computed, line by line, in whole batches.

A line holds the row's id, the pass and keys of the computation, and what came of it. A batch is
written in one go and its last line says so; on opening, the file is cut back to its last whole
batch, so a run killed at any byte goes on as if it had been killed between two batches.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from palate.errors import RunError, writing
from palate.files import flock
from palate.records import Record

LAST = b'"last":true}\n'
"""How the last line of a batch ends: within a text, quotes are escaped."""
FILE = ".lock"


class Line(Record):
    """What one computation gave for one row."""

    id: str
    in_pass: str
    keys: tuple[str, ...]
    values: tuple[float | None, ...]
    """Scores of the slate's candidates; a judgement's margins in each order."""
    reasons: tuple[str | None, ...] = ()
    raw: tuple[str | None, ...] = ()
    split: tuple[bool, ...] = ()
    outage: bool = False
    parts: int = 0
    """Parts the computation read, after the cut to the model's window."""
    last: bool = False
    """True on the last line of a batch."""


class Journal:
    """Opened for appending by one process at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: BinaryIO | None = None

    def __enter__(self) -> Journal:
        """Lock, cut back to the last whole batch."""
        with writing(self.path.parent, RunError):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self.path.open("ab")
        lock(self._file, self.path.parent)
        self._file.truncate(whole_bytes(self.path))
        self._file.seek(0, os.SEEK_END)
        return self

    def __exit__(self, *raised: object) -> None:
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.close()

    def append(self, lines: Sequence[Line]) -> None:
        """Write one batch and flush it."""
        assert self._file is not None, "the journal is not open"
        if not lines:
            return
        *others, end = lines
        batch = [*others, end.model_copy(update={"last": True})]
        text = "".join(f"{line.model_dump_json(exclude_defaults=True)}\n" for line in batch)
        with writing(self.path):
            self._file.write(text.encode("utf-8"))
            self._file.flush()


def located_lines(path: Path) -> Iterator[tuple[int, Line]]:
    """Yield (byte offset, line) of all whole batches; raises `RunError` for a bad line."""
    if not path.is_file():
        return
    end = whole_bytes(path)
    with path.open("rb") as file:
        offset = number = 0
        while offset < end:
            number += 1
            raw = file.readline()
            yield offset, _line(raw, f"{path}:{number}")
            offset += len(raw)


def line_at(file: BinaryIO, offset: int, path: Path) -> Line:
    """Return the line that begins at this byte of a journal."""
    file.seek(offset)
    return _line(file.readline(), f"{path}, byte {offset}")


def whole_bytes(path: Path) -> int:
    """Return the length of the journal up to the end of its last whole batch."""
    end = position = 0
    with path.open("rb") as file:
        for raw in file:
            position += len(raw)
            if raw.endswith(LAST):
                end = position
    return end


def _line(raw: bytes, where: str) -> Line:
    try:
        return Line.model_validate_json(raw)
    except ValueError as error:
        raise RunError(f"{where}: no line of this version's journals; choose another -o") from error


def lock(file: BinaryIO, folder: Path, *, wait: bool = False) -> None:
    """Lock a file until it is closed; a taken one is waited for, or closed with a `RunError`."""
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
