"""Rows on disk or on the hub, checked against the row contract."""

from palate.data.hub import download, hub
from palate.data.jsonl import MAX_LINE
from palate.data.loading import (
    FORMATS,
    LoadedRows,
    collect,
    content_hash,
    load_rows,
    parse_columns,
    stem,
)
from palate.data.rows import asked_title, telling_turns

__all__ = [
    "FORMATS",
    "MAX_LINE",
    "LoadedRows",
    "asked_title",
    "collect",
    "content_hash",
    "download",
    "hub",
    "load_rows",
    "parse_columns",
    "stem",
    "telling_turns",
]
