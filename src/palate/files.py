"""Files and folders that are there whole or not at all."""

from __future__ import annotations

import contextlib
import glob
import json
import secrets
import tempfile
from collections.abc import Iterable, Iterator
from io import BufferedWriter
from pathlib import Path
from typing import BinaryIO

try:
    import fcntl
except ImportError:  # no flock on this system: one writer is trusted, a killed one's part stays
    fcntl = None  # type: ignore[assignment]

ENDING = ".partial"
STEM_LENGTH = 40
"""Characters of a file's name in that of its temporary file, so that both names fit."""


@contextlib.contextmanager
def whole_file(path: Path, *, sweep: bool = True) -> Iterator[BufferedWriter]:
    """Give the stream of a new file, which takes this path when the block ends well.

    A reader of the path sees the old file or the new one, whenever the writer fails or is killed.
    With `sweep`, delete temporary files of dead writers. Raises `OSError`.
    """
    if path.is_symlink():
        path = path.resolve()
    path.parent.mkdir(parents=True, exist_ok=True)
    if sweep:
        _sweep(path)
    unfinished = path.with_name(f"{_stem(path)}{secrets.token_hex(8)}{ENDING}")
    try:
        with unfinished.open("xb") as stream:
            with contextlib.suppress(OSError):  # a place without locks is never swept
                flock(stream)
            yield stream
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def write_whole(path: Path, content: bytes | str | Iterable[str], errors: str = "strict") -> None:
    """Write bytes, or text in UTF-8, as `whole_file` does; `errors` is the encoder's."""
    parts = [content] if isinstance(content, bytes | str) else content
    with whole_file(path) as stream:
        for part in parts:
            stream.write(part if isinstance(part, bytes) else part.encode("utf-8", errors))


def write_json(path: Path, value: object) -> None:
    """Write indented JSON without NaN, keys in the order given, as `whole_file` does."""
    write_whole(path, json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


@contextlib.contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """Give a new folder, which takes this path when the block ends well; raises `OSError`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=_stem(path)) as scratch:
        unfinished = Path(scratch) / "folder"
        unfinished.mkdir()
        yield unfinished
        unfinished.replace(path)


def flock(stream: BinaryIO, *, wait: bool = False) -> None:
    """Lock an open file until it is closed, where the system has locks.

    Raises `OSError` where another process has it and this one may not wait.
    """
    if fcntl is not None:
        fcntl.flock(stream, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))


def _stem(path: Path) -> str:
    return f".{path.name[:STEM_LENGTH]}."


def _sweep(path: Path) -> None:
    for unfinished in path.parent.glob(f"{glob.escape(_stem(path))}*{ENDING}"):
        # The lock is refused while the file's writer lives.
        with contextlib.suppress(OSError), unfinished.open("rb") as stream:
            flock(stream)
            if fcntl is not None:
                unfinished.unlink()
