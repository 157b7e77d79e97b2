"""Files of JSON lines that palate writes: whole or not at all, and over no other file."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from itertools import islice
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
    if not path.exists() and not path.is_symlink():
        return
    try:
        first = [row for _, row in islice(read_jsonl(path), 1)]
    except DataError:  # such as a folder
        first = [None]
    if not all(isinstance(row, dict) and row.keys() == set(fields) for row in first):
        raise UsageError(f"-o {path}: is there and is not palate's; choose another name")


def write_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> int:
    """Write one JSON document a line, and return how many; raises `ResourceError`."""
    count = 0

    def lines() -> Iterable[str]:
        nonlocal count
        for row in rows:
            count += 1
            yield json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n"

    with writing(path):
        write_whole(path, lines(), "surrogatepass")
    return count
