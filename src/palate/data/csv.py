"""CSV and TSV (RFC 4180), row by row with the line that a row begins at.

Cells are texts, and an empty cell is missing. Only columns of the contract that hold lists or
objects are decoded, where they hold JSON.
"""

from __future__ import annotations

import csv
import logging
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from palate.data.jsonl import too_long
from palate.data.streams import MAX_LINE, ByteStream, to_convert
from palate.data.types import STRUCTURED, decoded
from palate.errors import DataError

LOG = logging.getLogger("palate")
SEPARATORS = {",": "commas", "\t": "tabs", ";": "semicolons"}


def read_csv(
    path: Path,
    separator: str = ",",
    *,
    max_line: int = MAX_LINE,
    structured: Collection[str] = STRUCTURED,
) -> Iterator[tuple[int, Any]]:
    """Yield (line, {column: text, or None where empty} or the `DataError` of that row).

    A header that lacks this separator and has another of `SEPARATORS` is split at the other, which
    is logged. Rows without any text are skipped.

    Raises `DataError` where the file cannot be read on: no UTF-8, a header with an empty or
    repeated name, a quote that is not closed, a row over `max_line` bytes.
    """
    # The limit is the process's, so it is only ever raised; `_Lines` holds rows to theirs.
    csv.field_size_limit(max(csv.field_size_limit(), max_line))
    with ByteStream(path) as stream:
        lines = _Lines(stream, max_line)
        separator = lines.separator(separator)
        try:
            reader = csv.reader(lines, delimiter=separator, strict=True)
            header = _header(next(reader, []), stream)
            lines.begin_row()
            for cells in reader:
                if any(cells):
                    yield lines.row_line, _row(header, cells, structured, path, lines.row_line)
                lines.begin_row()
        except csv.Error as error:
            raise stream.error(_reason(error, lines.row_line)) from error


class _Lines:
    """The lines of a file as text, and the line and length of the row they belong to."""

    def __init__(self, stream: ByteStream, max_line: int) -> None:
        self.stream, self.max_line = stream, max_line
        self.line, self.row_bytes = 0, 0
        self.header: str | None = None
        self.begin_row()

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        if self.header is not None:
            line, self.header = self.header, None
            return line
        raw = self.stream.readline(self.max_line + 2)
        if not raw:
            raise StopIteration
        self.line += 1
        if self.row_bytes + len(raw.rstrip(b"\r\n")) > self.max_line:
            raise too_long(self.stream, "row", self.max_line)
        self.row_bytes += len(raw)
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError as error:
            self.stream.line = self.line
            raise self.stream.error(
                f"not UTF-8 (byte {error.start + 1}), perhaps Windows-1252 or Latin-1; "
                + to_convert("WINDOWS-1252", self.stream.path)
            ) from error

    def begin_row(self) -> None:
        """Take the next line for the first of a row."""
        self.stream.line = self.row_line = self.line + 1
        self.row_bytes = 0

    def separator(self, usual: str) -> str:
        """Return what the header is separated by."""
        self.header = header = next(self, "")
        others = [mark for mark in SEPARATORS if mark in header]
        if usual in others or len(others) != 1:
            return usual
        LOG.warning("%s: separated by %s, read as such", self.stream.path, SEPARATORS[others[0]])
        return others[0]


def _header(cells: list[str], stream: ByteStream) -> list[str]:
    names = [cell.strip() for cell in cells]
    for number, name in enumerate(names, 1):
        if not name:
            raise stream.error(
                f"column {number} has no name in the header (pandas: to_csv(index=False))"
            )
        if name in names[: number - 1]:
            raise stream.error(f"two columns of the header are named {name!r}")
    return names


def _row(
    header: list[str], cells: list[str], structured: Collection[str], path: Path, line: int
) -> dict[str, Any] | DataError:
    if len(cells) != len(header):
        return DataError(
            f"{len(cells)} cells, where the header has {len(header)}", file=str(path), line=line
        )
    row: dict[str, Any] = {}
    for name, cell in zip(header, cells, strict=True):
        if "\0" in cell:
            return DataError("holds a NUL byte", file=str(path), line=line, field=name)
        try:
            row[name] = decoded(cell) if cell and name in structured else cell or None
        except DataError as error:
            return DataError(error.problem, file=str(path), line=line, field=name)
    return row


def _reason(error: csv.Error, line: int) -> str:
    if "unexpected end" in str(error):
        return "a quote that opens in this row is not closed"
    if "new-line" in str(error):
        if line == 1:
            return "lines end in CR alone; end them in LF or CRLF"
        return "a CR outside of quotes; quote such cells (csv.QUOTE_ALL)"
    return f"not CSV ({error})"
