"""Writing a run's files, all or nothing."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path


def write_whole(path: Path, text: str | Iterable[str]) -> None:
    """Write a file so that a reader sees the old one or the new one, never half."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    with unfinished.open("w", encoding="utf-8") as file:
        file.writelines([text] if isinstance(text, str) else text)
    unfinished.replace(path)


def write_json(path: Path, value: object) -> None:
    """Write indented JSON without NaN, keys in the order given, all or nothing."""
    write_whole(path, json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n")
