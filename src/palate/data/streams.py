"""The bytes of a file: plain, or gzip or Zstandard by its ending."""

from __future__ import annotations

import codecs
import gzip
import io
import zlib
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self, cast

from palate.errors import DataError, first_line, needing

PACKED = (".gz", ".zst")
MAX_LINE = 32 * 2**20
"""Bytes that one row may take."""


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

    def error(self, problem: str) -> DataError:
        """Return an error at this place of the file."""
        return DataError(problem, file=str(self.path), line=self.line)

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
