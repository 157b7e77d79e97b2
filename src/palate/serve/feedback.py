"""Choices of users, as rows of palate's row contract: on disk before they are acknowledged."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any

from palate.data import choice_key, choice_row, split_of
from palate.errors import UsageError
from palate.files import flock
from palate.records import Message


class FeedbackFile:
    """A file of JSON lines to which several processes may append; `palate adapt` reads it.

    Questions are split as a collection with this share and seed splits them.

    Raises `UsageError` for a file that cannot be opened, or whose name does not end in `.jsonl`,
    and for what is no share.
    """

    def __init__(self, path: Path, test_share: float = 0.0, seed: int = 0) -> None:
        self.path, self._lock = path, threading.Lock()
        self._split_of = partial(split_of, test_share=test_share, seed=seed)
        self._split_of("")  # refuses what is no share
        if path.suffix != ".jsonl":
            raise UsageError(f"--feedback {path}: a file of feedback ends in .jsonl")
        try:
            with self._locked():
                pass
        except OSError as error:
            raise UsageError(f"--feedback {path}: cannot be written ({error.strerror})") from error

    def append(
        self, user: str, question: str, chosen: str, rejected: str, turns: Sequence[Message] = ()
    ) -> Mapping[str, Any]:
        """Return the row of one choice, once it is on disk.

        Raises `DataError` naming the field for a row that breaks the contract, and `OSError` where
        the disk is full; then nothing of the row is kept.
        """
        split = self._split_of(choice_key(question, turns))
        date = datetime.now(UTC).isoformat(timespec="seconds")
        row = choice_row(user, question, chosen, rejected, split=split, date=date, turns=turns)
        line = f"{json.dumps(row, ensure_ascii=False)}\n".encode()
        with self._locked() as file:
            before = os.fstat(file).st_size
            try:
                if os.write(file, line) != len(line):
                    raise OSError(f"{self.path}: the disk is full")
                os.fsync(file)
            except OSError:
                os.ftruncate(file, before)
                raise
        return row

    @contextmanager
    def _locked(self) -> Iterator[int]:
        """Open the file for one writer, cut back to its last whole line."""
        with self._lock:
            new = not self.path.exists()
            # What people chose is theirs: nobody else on the machine may read it.
            file = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
            with os.fdopen(file, "r+b", buffering=0) as stream:
                flock(stream, wait=True)
                _cut_to_whole_lines(file)
                if new:
                    _sync_folder(self.path.parent)
                yield file


def _cut_to_whole_lines(file: int) -> None:
    # A process that died while it wrote leaves part of a line, which nobody was told is there.
    if not (size := os.fstat(file).st_size):
        return
    with mmap(file, size, access=ACCESS_READ) as content:
        end = content.rfind(b"\n") + 1
        tail = content[end:]
    if not tail:
        return
    row = None
    with suppress(ValueError):
        row = json.loads(tail)
    if isinstance(row, dict):  # a whole row, such as a person's editor leaves it
        os.write(file, b"\n")
    elif end or tail.startswith(b"{"):
        os.ftruncate(file, end)
    else:
        raise UsageError("--feedback: the file holds no rows; name another")


def _sync_folder(folder: Path) -> None:
    # A new file's name is on disk once its folder is.
    if os.name == "posix":
        opened = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)
