"""Rows on disk or on the hub, checked against the row contract."""

from palate.data.account import Account
from palate.data.columns import LayoutOptions
from palate.data.content import (
    OPENING,
    choice_key,
    choice_row,
    content_hash,
    forbidden_responses,
    forbidden_texts,
    holds,
    leaks,
    normal,
    split_of,
)
from palate.data.files import (
    download,
    files_of,
    hub,
    is_readable,
    one_data_set,
    read_file,
    read_rows,
    stem,
)
from palate.data.json_array import read_json, read_parts
from palate.data.layouts import layout_lines
from palate.data.loading import (
    LoadedRows,
    LoadOptions,
    collect,
    load_rows,
    parse_columns,
    parse_posts_columns,
    structured_columns,
    understood,
)
from palate.data.rows import (
    SURROGATE,
    TELLING,
    as_mapping,
    asked_title,
    read_identifier,
    read_question,
    read_turns,
)
from palate.data.streams import (
    MAX_LINE,
    PACKED,
    ByteStream,
    FileReading,
    need_own_lines,
    read_jsonl,
    write_lines,
)
from palate.data.tables import rows_of_frame
from palate.data.types import lost_zeros
from palate.data.votes import parse_votes
