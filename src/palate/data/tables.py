"""Tables: CSV and TSV (RFC 4180) with the line of each row, Parquet, frames of other libraries.

Cells of CSV are texts, and an empty cell is missing. Only columns of the contract that hold lists
or objects are decoded, where they hold JSON. Frames are told by what they can do.
"""

from __future__ import annotations

import csv
import logging
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from palate.data.columns import changed
from palate.data.streams import BOM, BOM_DROPPED, ByteStream, FileReading, to_convert, too_long
from palate.data.types import STRUCTURED, decoded, plain
from palate.errors import DataError, UsageError, needing

LOG = logging.getLogger("palate")
SEPARATORS = {",": "commas", "\t": "tabs", ";": "semicolons"}
QUOTES = "; --quoting none reads quotes as text"


def read_csv(
    path: Path, separator: str = ",", how: FileReading | None = None
) -> Iterator[tuple[int, Any]]:
    """Yield (line, {column: text, or None where empty} or the `DataError` of that row).

    A header that lacks this separator and has another of `SEPARATORS` is split at the other, which
    is logged. Rows without any text are skipped; the header once more, as in files that were joined
    by `cat`, is left out, and the account counts it. Raises `DataError` where the file cannot be
    read on: no UTF-8, a header with an empty or repeated name, a quote that is not closed, a row
    over `max_line` bytes; for a second header with other columns; and, unless `quoting` is given,
    where quotes may be text: a quoted cell crosses lines, and all lines have the header's cells
    without quotes.
    """
    how = how or FileReading()
    # The limit is the process's, so it is only ever raised; `_Lines` holds rows to theirs.
    csv.field_size_limit(max(csv.field_size_limit(), how.max_line))
    with ByteStream(path) as stream:
        lines = _Lines(stream, how.max_line)
        separator = lines.separator(separator)
        try:
            quoting: Literal[0, 3] = csv.QUOTE_NONE if how.quoting == "none" else csv.QUOTE_MINIMAL
            reader = csv.reader(lines, delimiter=separator, strict=True, quoting=quoting)
            header = _header(next(reader, []), stream)
            lines.begin_csv_row()
            for cells in reader:
                if _is_header(cells, header, stream):
                    how.account.leave_out("the header once more")
                elif any(cells):
                    yield lines.row_line, _csv_row(header, cells, how.structured, stream)
                lines.begin_csv_row()
        except csv.Error as error:
            hint = lines.plain and how.quoting is None
            raise stream.error(_reason(error, lines.row_line, QUOTES * hint)) from error
        if how.quoting is None and lines.plain and lines.crossed:
            stream.line = lines.crossed
            raise stream.error(
                "a quoted cell crosses lines here, but every line has the header's "
                f"{len(header)} cells without quotes; --quoting none reads quotes as text, "
                "--quoting minimal as what stands around a cell"
            )
    if lines.boms:
        how.account.merge(BOM_DROPPED, lines.boms)


class _Lines:
    """The lines of a file as text, and the line and length of the row they belong to."""

    def __init__(self, stream: ByteStream, max_line: int) -> None:
        self.stream, self.max_line = stream, max_line
        self.line, self.row_bytes = 0, 0
        self.header: str | None = None
        self.mark, self.cuts = "", 0
        self.plain = True
        """Whether each line so far has the header's cells, were quotes text."""
        self.crossed = 0
        """The first row of more than one line."""
        self.boms = 0
        self.begin_csv_row()

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
            line = raw.decode("utf-8")
        except UnicodeDecodeError as error:
            self.stream.line = self.line
            raise self.stream.error(
                f"not UTF-8 (byte {error.start + 1}), perhaps Windows-1252 or Latin-1; "
                + to_convert("WINDOWS-1252", self.stream.path)
            ) from error
        if line.startswith(BOM):
            self.boms, line = self.boms + 1, line.lstrip(BOM)
        if self.cuts:
            within = self.line > self.row_line
            self.crossed = self.crossed or self.row_line * within
            self.plain &= line.count(self.mark) == self.cuts or not (within or line.strip())
        return line

    def begin_csv_row(self) -> None:
        """Take the next line for the first of a row."""
        self.stream.line = self.row_line = self.line + 1
        self.row_bytes = 0

    def separator(self, usual: str) -> str:
        """Return what the header is separated by."""
        header = next(self, "")
        if told := re.fullmatch(r'"?sep=(.)"?\s*', header):  # Excel's own line
            usual, header = told[1], next(self, "")
        self.header = header
        others = [mark for mark in SEPARATORS if mark in header]
        self.mark = usual
        if usual not in header and len(others) == 1:
            self.mark = others[0]
            name = SEPARATORS[self.mark]
            LOG.warning("%s: separated by %s, read as such", self.stream.path, name)
        # Quotes in the header tell that they stand around cells.
        self.cuts = 0 if '"' in header else header.count(self.mark)
        self.plain = self.cuts > 0
        return self.mark


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


def _is_header(cells: list[str], header: list[str], stream: ByteStream) -> bool:
    if len(cells) < 2 or cells[0].strip() not in header:
        return False
    if {cell.strip() for cell in cells} != set(header):
        return False
    if [cell.strip() for cell in cells] != header:
        raise stream.error("a header within the file, with its columns in another order; split it")
    return True


def _csv_row(
    header: list[str], cells: list[str], structured: Collection[str], stream: ByteStream
) -> dict[str, Any] | DataError:
    if len(cells) != len(header):
        return stream.error(f"{len(cells)} cells, where the header has {len(header)}")
    row: dict[str, Any] = {}
    for name, cell in zip(header, cells, strict=True):
        if "\0" in cell:
            return stream.error("holds a NUL byte", name)
        try:
            row[name] = decoded(cell) if cell and name in structured else cell or None
        except DataError as error:
            return error.at(stream.path, stream.line, name)
    return row


def _reason(error: csv.Error, line: int, hint: str) -> str:
    if "unexpected end" in str(error):
        return f"a quote that opens in this row is not closed{hint}"
    if "new-line" in str(error):
        if line == 1:
            return "lines end in CR alone; end them in LF or CRLF"
        return "a CR outside of quotes; quote such cells (csv.QUOTE_ALL)"
    return f"not CSV ({error})" + hint * ('"' in str(error))


TAKEN = (
    "a pandas or polars frame, a pyarrow table, a `datasets.Dataset`, or an iterable of mappings"
)


def read_parquet(path: Path) -> Iterator[tuple[int, Any]]:
    """Yield (number from 1, row or `DataError`); raises it for a damaged file and equal names."""
    with needing(f"{path}: Parquet needs", "hub"):
        import pyarrow as pa
        import pyarrow.parquet as pq
    try:
        row = 0
        with pq.ParquetFile(path) as file:
            names = file.schema_arrow.names
            twice = [name for name in names if names.count(name) > 1]
            if twice:
                raise DataError(f"two columns are named {twice[0]!r}", file=str(path))
            for batch in file.iter_batches(batch_size=256):
                for value in _rows(batch):
                    row += 1
                    yield row, value
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"not a readable Parquet file ({error})", file=str(path)) from error


def _rows(batch: Any) -> list[Any]:
    try:
        return list(batch.to_pylist())
    except ValueError:  # text that is not UTF-8, a date out of range: find the rows
        return [_row(batch.slice(k, 1)) for k in range(batch.num_rows)]


def _row(batch: Any) -> Any:
    for k, name in enumerate(batch.schema.names):
        try:
            batch.column(k).to_pylist()
        except UnicodeDecodeError as error:
            return DataError(f"not UTF-8 (byte {error.start + 1})", field=name)
        except ValueError as error:
            return DataError(f"cannot be read ({error})", field=name)
    return batch.to_pylist()[0]


def rows_of_frame(frame: Any, structured: Iterable[str] = STRUCTURED) -> Iterator[tuple[int, Any]]:
    """Yield (number from 1, row or its `DataError`); NaN, NaT and NA are missing.

    Texts in `structured` columns that hold a list or an object as JSON are decoded. Raises
    `UsageError` for what holds no rows, for several splits, and for two columns of one name.

    >>> list(rows_of_frame([{"id": 1, "reference": float("nan")}]))
    [(1, {'id': 1, 'reference': None})]
    """
    names = set(structured)

    def cell(name: str, value: Any) -> Any:
        if name not in names or not isinstance(value, str):
            return plain(value)
        return decoded(value, name) if value else None

    rows = enumerate(_rows_in(frame), 1)
    return changed(rows, lambda row: {str(n): cell(str(n), value) for n, value in row.items()})


def _rows_in(frame: Any) -> Iterator[Any]:
    if isinstance(frame, Mapping):
        listed = ", ".join(map(str, list(frame)[:8]))
        raise UsageError(f"a mapping of {listed}: give one of its values; expected {TAKEN}")
    # A table of pyarrow has its data in `columns`; a stream of `datasets` may not know its names.
    columns = getattr(frame, "column_names", getattr(frame, "columns", None))
    columns = [] if columns is None else list(columns)
    if twice := [str(name) for name, n in Counter(map(str, columns)).items() if n > 1]:
        raise UsageError(f"two columns of the frame are named {twice[0]!r}")
    if hasattr(frame, "iter_rows"):  # polars
        yield from frame.iter_rows(named=True)
    elif hasattr(frame, "itertuples"):  # pandas
        for values in frame.itertuples(index=False, name=None):
            yield dict(zip(columns, values, strict=True))
    elif hasattr(frame, "to_batches"):  # pyarrow
        for batch in frame.to_batches(max_chunksize=256):
            yield from batch.to_pylist()
    elif isinstance(frame, Iterable) and not isinstance(frame, str | bytes):
        yield from frame
    else:
        raise UsageError(f"a {type(frame).__name__} holds no rows; expected {TAKEN}")
