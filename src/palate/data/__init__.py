"""Rows on disk or on the hub, checked against the row contract."""

from palate.data.hub import download, hub
from palate.data.jsonl import MAX_LINE, read_jsonl
from palate.data.loading import (
    FORMATS,
    LoadedRows,
    collect,
    content_hash,
    load_rows,
    parse_columns,
    stem,
)
from palate.data.rows import asked_title, read_question

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
    "read_jsonl",
    "read_question",
    "stem",
]
