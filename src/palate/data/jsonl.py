"""JSON Lines, read line by line with the line's number."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from palate.data.streams import MAX_LINE, ByteStream
from palate.errors import DataError


def read_jsonl(
    path: Path, *, max_line: int = MAX_LINE, errors: str = "strict"
) -> Iterator[tuple[int, Any]]:
    """Yield (line number, parsed value or the `DataError` of that line); blank lines are skipped.

    `errors` is `surrogatepass` where texts may hold half a surrogate pair.

    Raises `DataError` where the file itself cannot be read on: missing, damaged, cut short, a line
    over `max_line` bytes (refused unread).
    """
    line = 0
    with ByteStream(path) as stream:
        stream.line = 1
        while raw := stream.readline(max_line + 2):
            stream.line = line = line + 1
            if len(raw.rstrip(b"\r\n")) > max_line:
                raise too_long(stream, "line", max_line)
            if raw.strip():
                yield line, parse(raw, path, line, errors)
            stream.line = line + 1


def parse(raw: bytes, path: Path, line: int, errors: str = "strict") -> Any:
    """Return the value of one JSON text, or the `DataError` that names it."""
    try:
        return json.loads(raw.decode("utf-8", errors))
    except UnicodeDecodeError as error:
        return DataError(f"not UTF-8 (byte {error.start + 1})", file=str(path), line=line)
    except (ValueError, RecursionError) as error:  # ValueError: a number of over 4,300 digits too
        return DataError(f"not JSON ({error})", file=str(path), line=line)


def too_long(stream: ByteStream, what: str, max_line: int) -> DataError:
    """Return the error of a line or row that is over the limit."""
    limit = f"{max_line / 2**20:g} MiB"
    return stream.error(f"the {what} is over {limit}; raise --max-line or split the row")
