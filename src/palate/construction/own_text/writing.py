"""Rows written to a file that is there whole or not at all, with its manifest beside it."""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import BufferedIOBase
from pathlib import Path
from typing import Any

from palate.errors import UsageError, writing
from palate.files import whole_file, write_json
from palate.seeding import canonical_json

ENDINGS = (".jsonl", ".jsonl.gz")


class RowWriter:
    """Writes one row a line."""

    def __init__(self, stream: BufferedIOBase) -> None:
        self._stream = stream

    def write(self, row: Mapping[str, Any]) -> None:
        """Write a row."""
        self._stream.write(canonical_json(row).encode() + b"\n")


def manifest_of(path: Path) -> Path:
    """Return where the manifest of a file of rows lies."""
    return path.with_name(f"{path.name}.manifest.json")


def check_output(path: Path) -> None:
    """Raise `UsageError` unless rows can be written under this name."""
    if not path.name.endswith(ENDINGS):
        raise UsageError(f"-o {path}: expected a file that ends in {' or '.join(ENDINGS)}")
    if path.is_dir():
        raise UsageError(f"-o {path}: is a folder; expected a file")


@contextmanager
def rows_file(path: Path) -> Iterator[RowWriter]:
    """Give a writer whose file takes its name at the end; the same rows give the same bytes."""
    with writing(path), whole_file(path) as stream:
        if path.suffix == ".gz":
            with gzip.GzipFile("", "wb", fileobj=stream, mtime=0) as packed:
                yield RowWriter(packed)
        else:
            yield RowWriter(stream)


def write_manifest(path: Path, document: Mapping[str, Any]) -> None:
    """Write the manifest beside a file of rows."""
    target = manifest_of(path)
    with writing(target):
        write_json(target, document)
