"""JSON Lines, plain or gzipped, read line by line with the line's number."""

from __future__ import annotations

import codecs
import gzip
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from palate.errors import DataError

MAX_LINE = 32 * 2**20


def read_jsonl(
    path: Path, *, max_line: int = MAX_LINE, errors: str = "strict"
) -> Iterator[tuple[int, Any]]:
    """Yield (line number, parsed value or the `DataError` of that line); blank lines are skipped.

    `errors` is `surrogatepass` where texts may hold half a surrogate pair.

    Raises `DataError` where the file itself cannot be read on: missing, not gzip, cut short, a line
    over `max_line` bytes (refused unread).
    """
    line = 0
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as stream:
            while raw := stream.readline(max_line + 2):
                line += 1
                if len(raw.rstrip(b"\r\n")) > max_line:
                    limit = f"{max_line / 2**20:g} MiB"
                    raise DataError(
                        f"the line is over {limit}; raise --max-line or split the row",
                        file=str(path), line=line,
                    )  # fmt: skip
                if line == 1:
                    raw = raw.removeprefix(codecs.BOM_UTF8)
                if raw.strip():
                    yield line, _parse(raw, path, line, errors)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(
            f"the gzip stream is damaged or cut short ({error})", file=str(path), line=line + 1
        ) from error
    except OSError as error:
        raise DataError(f"cannot be read ({error.strerror or error})", file=str(path)) from error


def _parse(raw: bytes, path: Path, line: int, errors: str) -> Any:
    try:
        return json.loads(raw.decode("utf-8", errors))
    except UnicodeDecodeError as error:
        return DataError(f"not UTF-8 (byte {error.start + 1})", file=str(path), line=line)
    except (ValueError, RecursionError) as error:  # ValueError: a number of over 4,300 digits too
        return DataError(f"not JSON ({error})", file=str(path), line=line)
