"""Rows written to a file that is there whole or not at all."""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from palate.errors import UsageError, writing
from palate.files import whole_file
from palate.seeding import canonical_json

ENDINGS = (".jsonl", ".jsonl.gz")


class RowWriter:
    """Writes one row a line."""

    def __init__(self, stream: BinaryIO | gzip.GzipFile) -> None:
        self._stream = stream

    def write(self, row: Mapping[str, Any]) -> None:
        """Write a row."""
        self._stream.write(canonical_json(row).encode() + b"\n")


def check_output(path: Path, flag: str = "-o") -> None:
    """Raise `UsageError` unless rows can be written under this name."""
    if not path.name.endswith(ENDINGS):
        raise UsageError(f"{flag} {path}: expected a file that ends in {' or '.join(ENDINGS)}")
    if path.is_dir():
        raise UsageError(f"{flag} {path}: is a folder; expected a file")


@contextmanager
def rows_file(path: Path) -> Iterator[RowWriter]:
    """Give a writer of a whole file, gzipped by its name; the same rows give the same bytes."""
    with writing(path), whole_file(path) as stream:
        if path.suffix == ".gz":
            with gzip.GzipFile("", "wb", fileobj=stream, mtime=0) as packed:
                yield RowWriter(packed)
        else:
            yield RowWriter(stream)
