"""Files that are written whole or not at all: the one place that opens a file to write it anew."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from io import BufferedWriter
from pathlib import Path


@contextmanager
def whole_file(path: Path) -> Iterator[BufferedWriter]:
    """Give a stream whose file takes the name `path` at the end.

    Whoever reads `path` sees the old file or the new one, never half, also where the process is
    killed meanwhile. After an error the old file stays. Folders are made.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{secrets.token_hex(8)}.unfinished")
    try:
        with unfinished.open("wb") as stream:
            yield stream
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def write_whole(path: Path, content: str | bytes | Iterable[str]) -> None:
    """Write a text in UTF-8, its parts one after the other, or bytes.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_whole(Path(folder) / "new" / "tea.txt", ["Tea", ", please"])
    ...     (Path(folder) / "new" / "tea.txt").read_text()
    'Tea, please'
    """
    parts = [content] if isinstance(content, (str, bytes)) else content
    with whole_file(path) as stream:
        for part in parts:
            stream.write(part if isinstance(part, bytes) else part.encode("utf-8"))


def write_json(path: Path, value: object) -> None:
    """Write indented JSON without NaN, keys in the order given."""
    write_whole(path, json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n")
