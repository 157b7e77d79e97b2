"""Files of JSON lines that palate writes: whole or not at all, and over no other file."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from palate.data.jsonl import read_jsonl
from palate.errors import DataError, UsageError, writing
from palate.files import write_whole


def need_own_lines(path: Path, fields: Collection[str]) -> None:
    """Raise `UsageError` for a name that is not `.jsonl`, or a file whose lines have other fields.

    >>> need_own_lines(Path("scores.csv"), {"id"})
    Traceback (most recent call last):
    palate.errors.UsageError: -o scores.csv: expected a name that ends in .jsonl
    """
    if path.suffix != ".jsonl":
        raise UsageError(f"-o {path}: expected a name that ends in .jsonl")
    try:
        first = next(read_jsonl(path), (1, None))[1] if path.exists() else dict.fromkeys(fields)
    except DataError:  # such as a folder
        first = None
    if not isinstance(first, dict) or first.keys() != set(fields):
        raise UsageError(f"-o {path}: is there and is not palate's; choose another name")


def write_lines(rows: Iterable[Mapping[str, Any]], path: Path) -> None:
    """Write one JSON document a line; raises `ResourceError` where it cannot."""
    lines = (json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n" for row in rows)
    with writing(path):
        write_whole(path, lines, "surrogatepass")
