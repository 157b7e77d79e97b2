"""Rows on disk or on the hub, checked against the row contract."""

from palate.data.hub import download, hub
from palate.data.jsonl import MAX_LINE
from palate.data.layouts import LAYOUTS, LayoutOptions, Reading, layout_lines, parse_votes
from palate.data.loading import (
    FORMATS,
    LoadedRows,
    collect,
    content_hash,
    load_rows,
    stem,
)
from palate.data.mapping import parse_columns
from palate.data.rows import asked_title

__all__ = [
    "FORMATS",
    "LAYOUTS",
    "MAX_LINE",
    "LayoutOptions",
    "LoadedRows",
    "Reading",
    "asked_title",
    "collect",
    "content_hash",
    "download",
    "hub",
    "layout_lines",
    "load_rows",
    "parse_columns",
    "parse_votes",
    "stem",
]
