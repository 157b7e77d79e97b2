"""The files of a source, and the elements of a large JSON file one by one."""

from __future__ import annotations

import gzip
import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from palate.data.jsonl import read_jsonl
from palate.data.parquet import read_parquet
from palate.errors import DataError, UsageError, first_line

JSON = (".json", ".json.gz")
ROWS = (".jsonl", ".jsonl.gz", ".parquet")
SHARD = re.compile(r"-\d+-of-\d+$")


def files_of(source: Path, endings: tuple[str, ...]) -> list[Path]:
    """Return a file, or the one data set in a folder, which may be cut into shards.

    Raises `UsageError` where there is none, or where several could be meant.
    """
    if source.is_file():
        if not source.name.endswith(endings):
            raise UsageError(f"{source}: expected a file that ends in {', '.join(endings)}")
        return [source]
    if not source.is_dir():
        raise UsageError(f"{source}: no such file or folder")
    files = sorted(path for path in source.iterdir() if path.name.endswith(endings))
    names = {SHARD.sub("", path.name.partition(".")[0]) for path in files}
    if not files:
        raise UsageError(f"{source}: holds no file that ends in {', '.join(endings)}")
    if len(names) > 1:
        listed = ", ".join(path.name for path in files[:4]) + (", …" if len(files) > 4 else "")
        raise UsageError(f"{source}: holds several data sets ({listed}); name one file")
    return files


def rows_of(path: Path) -> Iterator[tuple[int, Any]]:
    """Yield (number from 1, row or its `DataError`) of a JSON list, JSON Lines or Parquet."""
    if path.name.endswith((".jsonl", ".jsonl.gz")):
        return read_jsonl(path)
    if path.suffix == ".parquet":
        return read_parquet(path)
    return enumerate(json_items(path, "item"), 1)


def json_items(path: Path, place: str) -> Iterator[Any]:
    """Yield the elements at a place of a JSON file; no more than one is held at a time.

    Raises `DataError` where the file cannot be read, `UsageError` without ijson.
    """
    try:
        import ijson
    except ImportError as error:
        raise UsageError(f"{path}: JSON needs pip install 'palate[build]'") from error
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
            yield from ijson.items(stream, place, use_float=True)
    except (ijson.JSONError, UnicodeDecodeError) as error:
        raise DataError(f"not JSON ({first_line(error)})", file=str(path)) from error
    except (OSError, EOFError) as error:
        raise DataError(f"cannot be read ({first_line(error)})", file=str(path)) from error


def hash_of_file(path: Path) -> str:
    """Return the SHA-256 of a file's bytes."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
