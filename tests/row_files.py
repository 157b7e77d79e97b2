"""Files of rows, and what reading them gives."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from palate.data import (
    LayoutOptions,
    LoadedRows,
    LoadOptions,
    load_rows,
    parse_columns,
    parse_votes,
)


def as_lines(rows: Iterable[Any]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def write(path: Path, rows: Iterable[Any]) -> Path:
    path.write_text(as_lines(rows), "utf-8")
    return path


def load(
    path: Path, rows: str | Iterable[Any], *columns: str, skip: bool = True, **options: Any
) -> LoadedRows:
    """Write rows, or a text as it is, and read them; `columns` are those of `--map`."""
    path.write_text(rows if isinstance(rows, str) else as_lines(rows), "utf-8", newline="")
    layout = LayoutOptions(**{**options, "votes": parse_votes(options.get("votes", []))})
    return load_rows(path, LoadOptions(columns=parse_columns(columns), skip_bad_rows=skip,
                                       layout=layout))  # fmt: skip


def said(loaded: LoadedRows) -> str:
    return "\n".join(loaded.account.surprises())


def chosen(loaded: LoadedRows) -> list[str]:
    return [row.chosen for row in loaded.rows]  # type: ignore[attr-defined]
