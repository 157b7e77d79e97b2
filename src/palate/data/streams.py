"""The bytes of a file: plain, or gzip or Zstandard by its ending."""

from __future__ import annotations

import codecs
import gzip
import io
import json
import zlib
from codecs import BOM_UTF8
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self, cast

from palate.data.account import Account
from palate.data.types import STRUCTURED
from palate.errors import DataError, UsageError, first_line, needing, writing
from palate.files import write_whole

PACKED = (".gz", ".zst")
MAX_LINE = 32 * 2**20
"""Bytes that one row may take."""
BOM = "\ufeff"
BOM_DROPPED = "lines within a file that begin with a BOM, which is dropped"


@dataclass(frozen=True)
class FileReading:
    """How a file is read, and the account that takes what is left out on the way."""

    account: Account = field(default_factory=Account)
    max_line: int = MAX_LINE
    structured: Collection[str] = STRUCTURED
    """Columns of CSV in which cells that hold JSON are decoded."""
    quoting: str | None = None
    """`none` or `minimal` where quotes in CSV could be read in two ways."""
    errors: str = "strict"
    """`surrogatepass` where texts of JSON may hold half a surrogate pair."""


class ByteStream:
    """Reads a file unpacked; `line` is set by its reader, so that errors can name it.

    Whatever stops the reading becomes a `DataError`: no such file, not gzip or Zstandard, cut
    short, text in UTF-16 or UTF-32. Raises `UsageError` where Zstandard needs an extra.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.line: int | None = None

    def __enter__(self) -> Self:
        try:
            self._stream = _open(self.path)
        except OSError as error:
            raise self.error(f"cannot be read ({error.strerror or error})") from error
        try:
            self._refuse_wide()
        except BaseException as error:
            self.__exit__(type(error), error, None)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._stream.close()
        packed = {".gz": "gzip", ".zst": "Zstandard"}.get(self.path.suffix.lower())
        damage = (EOFError, zlib.error, gzip.BadGzipFile)
        if isinstance(error, damage) or (isinstance(error, OSError) and not error.errno and packed):
            raise self.error(
                f"the {packed} stream is damaged or cut short ({first_line(error)})"
            ) from error
        if isinstance(error, OSError):
            raise self.error(f"cannot be read ({error.strerror or error})") from error

    def read(self, size: int) -> bytes:
        """Return so many bytes, fewer at the end."""
        return self._stream.read(size)

    def readline(self, limit: int) -> bytes:
        """Return a line with its end, or its first `limit` bytes."""
        return self._stream.readline(limit)

    def error(self, problem: str, field: str | None = None) -> DataError:
        """Return an error at this place of the file."""
        return DataError(problem, file=str(self.path), line=self.line, field=field)

    def _refuse_wide(self) -> None:
        start = self._stream.peek(4)[:4]  # type: ignore[attr-defined]
        if wide := _wide(start):
            raise self.error(f"seems to be {wide}; {to_convert(wide, self.path)}")
        if start.startswith(codecs.BOM_UTF8):
            self._stream.read(len(codecs.BOM_UTF8))


def to_convert(encoding: str, path: Path) -> str:
    """Return what to do with a file in another encoding than UTF-8.

    >>> to_convert("UTF-16", Path("data/votes.csv"))
    'palate reads UTF-8: iconv -f UTF-16 -t UTF-8 votes.csv > votes.utf8.csv'
    """
    name = path.name
    for ending in PACKED:
        name = name.removesuffix(ending)
    new = Path(name).with_suffix(f".utf8{Path(name).suffix}")
    return f"palate reads UTF-8: iconv -f {encoding} -t UTF-8 {name} > {new}"


def _wide(start: bytes) -> str | None:
    if start.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
        return "UTF-32"
    zeros = [byte == 0 for byte in start]
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "UTF-16"
    if zeros == [False, True, False, True]:
        return "UTF-16LE"
    return "UTF-16BE" if zeros == [True, False, True, False] else None


def _open(path: Path) -> BinaryIO:
    suffix = path.suffix.lower()
    if suffix == ".gz":
        return cast(BinaryIO, gzip.open(path, "rb"))
    if suffix != ".zst":
        return path.open("rb")
    with needing(f"{path}: Zstandard needs", "hub"):
        from pyarrow import CompressedInputStream
    unpacked = CompressedInputStream(path.open("rb"), "zstd")
    return io.BufferedReader(cast(io.RawIOBase, unpacked), 2**20)


def read_jsonl(path: Path, how: FileReading | None = None) -> Iterator[tuple[int, Any]]:
    """Yield (line number, parsed value or the `DataError` of that line); blank lines are skipped.

    A BOM that begins a line is dropped, and the account counts it. Raises `DataError` where the
    file itself cannot be read on: missing, damaged, cut short, a line over `max_line` bytes
    (refused unread).
    """
    line, how = 0, how or FileReading()
    with ByteStream(path) as stream:
        stream.line = 1
        while raw := stream.readline(how.max_line + 2):
            stream.line = line = line + 1
            if len(raw.rstrip(b"\r\n")) > how.max_line:
                raise too_long(stream, "line", how.max_line)
            if raw.startswith(BOM_UTF8):
                raw = raw[len(BOM_UTF8) :]
                how.account.merge(BOM_DROPPED)
            if raw.strip():
                yield line, parse(raw, path, line, how.errors)
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


def need_own_lines(path: Path, fields: Collection[str]) -> None:
    """Raise `UsageError` for a name that is not `.jsonl`, or a file whose lines have other fields.

    >>> need_own_lines(Path("scores.csv"), {"id"})
    Traceback (most recent call last):
    palate.errors.UsageError: -o scores.csv: expected a name that ends in .jsonl
    """
    if path.suffix != ".jsonl":
        raise UsageError(f"-o {path}: expected a name that ends in .jsonl")
    try:
        first = next(read_jsonl(path), (1, None))[1] if path.exists() else dict.fromkeys(fields)
    except DataError:  # such as a folder
        first = None
    if not isinstance(first, dict) or first.keys() != set(fields):
        raise UsageError(f"-o {path}: is there and is not palate's; choose another name")


def write_lines(rows: Iterable[Mapping[str, Any]], path: Path) -> None:
    """Write one JSON document a line; raises `ResourceError` where it cannot."""
    lines = (json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n" for row in rows)
    with writing(path):
        write_whole(path, lines, "surrogatepass")
