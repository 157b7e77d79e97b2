"""Rows on disk or on the hub, checked against the row contract."""

from palate.data.choice_rows import choice_key, choice_row, split_of
from palate.data.files import (
    FORMATS,
    files_of,
    is_readable,
    one_data_set,
    read_file,
    read_rows,
    stem,
)
from palate.data.frames import rows_of_frame
from palate.data.hub import download, hub
from palate.data.layouts import LAYOUTS, LayoutMatch, LayoutOptions, layout_lines, parse_votes
from palate.data.leaks import forbidden_responses, forbidden_texts, leaks, normal
from palate.data.loading import LoadedRows, collect, content_hash, load_rows, understood
from palate.data.mapping import parse_columns
from palate.data.own_lines import need_own_lines, write_lines
from palate.data.rows import asked_title, read_question, telling_turns
from palate.data.streams import MAX_LINE
from palate.data.types import STRUCTURED

__all__ = [
    "FORMATS",
    "LAYOUTS",
    "MAX_LINE",
    "STRUCTURED",
    "LayoutMatch",
    "LayoutOptions",
    "LoadedRows",
    "asked_title",
    "choice_key",
    "choice_row",
    "collect",
    "content_hash",
    "download",
    "files_of",
    "forbidden_responses",
    "forbidden_texts",
    "hub",
    "is_readable",
    "layout_lines",
    "leaks",
    "load_rows",
    "need_own_lines",
    "normal",
    "one_data_set",
    "parse_columns",
    "parse_votes",
    "read_file",
    "read_question",
    "read_rows",
    "rows_of_frame",
    "split_of",
    "stem",
    "telling_turns",
    "understood",
    "write_lines",
]
