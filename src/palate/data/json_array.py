"""JSON files that hold a list of objects, read one object at a time.

Elements are told apart by their brackets and parsed one by one, each as a line of JSON Lines is:
the same numbers, the same refusals, and an element that cannot be read is a bad row.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from palate.data.streams import ByteStream, FileReading, parse, too_long
from palate.errors import DataError

CHUNK = 2**20
SPACE = re.compile(rb"[ \t\r\n]*+")
STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
TO_BRACKET = re.compile(rb'(?:[^"{}\[\]]++|"[^"\\]*+(?:\\.[^"\\]*+)*+")*+', re.DOTALL)
SCALAR = re.compile(rb'[^\s,:"{}\[\]]*+')
OF_A_ROW = ("profile", "rubric_aspects")
"""Lists of objects that a row itself has: an object with one of these is a row."""


class JsonPart(NamedTuple):
    """A piece of the document: an element of a list, or a member of the object itself."""

    name: str | None
    """The member's name; None for an element of the document's own list."""
    number: int | None
    """The element's number from 1; None for a member that is no list."""
    value: Any
    """The parsed value, or the `DataError` of what cannot be read."""


def read_json(path: Path, how: FileReading | None = None) -> Iterator[tuple[int, Any]]:
    """Yield (number from 1, element or its `DataError`) of the one list of objects.

    The list is the document, or a member of the object that the document is. Raises `DataError`
    where the file cannot be read on, holds no such list or two of them, or an element is over
    `max_line` bytes.
    """
    rows: str | None = None
    others: set[str] = set()
    for member, number, value in read_parts(path, how):
        if member is None and number is not None:
            yield number, value
            continue
        name = member or ""
        if number == 1 and isinstance(value, dict | DataError) and name not in OF_A_ROW:
            if rows is not None:
                raise DataError(
                    f"holds two lists of objects, {rows!r} and {name!r}; keep the one of the rows",
                    file=str(path),
                )
            rows = name
        if number is not None and name == rows:
            yield number, value
        others.add(name)
    if others and rows is None:
        raise DataError(
            "an object without a list of rows; expected a list of objects, or an object with one "
            '(pandas: orient="records"; one row alone is a .jsonl)',
            file=str(path),
        )


def read_parts(path: Path, how: FileReading | None = None) -> Iterator[JsonPart]:
    """Yield the elements of a document that is a list, or the members of one that is an object.

    A member that is a list is yielded element by element. Raises `DataError` as `read_json` does.
    """
    with ByteStream(path) as stream:
        yield from _Document(stream, how or FileReading()).parts()


class _Document:
    def __init__(self, stream: ByteStream, how: FileReading) -> None:
        self.stream, self.max_line, self.errors = stream, how.max_line, how.errors
        self.buffer, self.at, self.start = b"", 0, 0

    def parts(self) -> Iterator[JsonPart]:
        match self.peek():
            case b"[":
                yield from self.elements(None)
            case b"{":
                yield from self.members()
            case b"":
                return
            case _:
                raise self.expected("a list of objects, or an object with one")
        if self.peek():
            raise self.expected("the end of the file")

    def members(self) -> Iterator[JsonPart]:
        for _ in self.until(b"}"):
            name = self.parsed()
            if not isinstance(name, str):
                raise self.expected("a name in quotes")
            self.take(b":", "a colon")
            if self.peek() == b"[":
                yield from self.elements(name)
            else:
                yield JsonPart(name, None, self.parsed())

    def elements(self, name: str | None) -> Iterator[JsonPart]:
        for number in self.until(b"]"):
            self.stream.line = number
            yield JsonPart(name, number, self.parsed())

    def until(self, end: bytes) -> Iterator[int]:
        """Yield the number of each value, from the bracket here to the one that closes it."""
        self.at += 1
        number = 0
        while self.peek() != end:
            number += 1
            yield number
            if self.peek() != end:
                self.take(b",", f"a comma or {end.decode()}")
                if self.peek() == end:
                    raise self.expected("a value after the comma")
        self.at += 1

    def parsed(self) -> Any:
        """Return the value that begins here, of at most `max_line` bytes."""
        first = self.peek()
        self.start = self.at
        if first in (b"{", b"["):
            self.skip_brackets()
        elif first == b'"':
            while (end := _end(STRING, self.buffer, self.start)) == self.start:
                self.more()
            self.at = end
        else:
            self.skip_scalar()
        if self.at - self.start > self.max_line:
            raise too_long(self.stream, "element", self.max_line)
        raw = self.buffer[self.start : self.at]
        return parse(raw, self.stream.path, self.stream.line or 1, self.errors)

    def skip_brackets(self) -> None:
        depth = 0
        while True:
            self.at = _end(TO_BRACKET, self.buffer, self.at)
            mark = self.buffer[self.at : self.at + 1]
            if mark in (b"", b'"'):  # a string that is not yet whole
                self.more()
                continue
            self.at += 1
            depth += 1 if mark in b"{[" else -1
            if not depth:
                return

    def skip_scalar(self) -> None:
        self.at = _end(SCALAR, self.buffer, self.start)
        if self.at == self.start:
            raise self.expected("a value")
        while self.at == len(self.buffer):
            self.more()
            self.at = _end(SCALAR, self.buffer, self.at)

    def peek(self) -> bytes:
        """Return the next byte that is no white space; empty at the end of the file."""
        while (end := _end(SPACE, self.buffer, self.at)) == len(self.buffer):
            self.buffer, self.at = self.stream.read(CHUNK), 0
            if not self.buffer:
                return b""
        self.at = end
        return self.buffer[end : end + 1]

    def more(self) -> None:
        if len(self.buffer) - self.start > self.max_line:
            raise too_long(self.stream, "element", self.max_line)
        chunk = self.stream.read(CHUNK)
        if not chunk:
            raise self.stream.error("cut short: the file ends within a value")
        self.buffer = self.buffer[self.start :] + chunk
        self.at, self.start = self.at - self.start, 0

    def take(self, mark: bytes, what: str) -> None:
        if self.peek() != mark:
            raise self.expected(what)
        self.at += 1

    def expected(self, what: str) -> DataError:
        mark = self.peek()
        if not mark:
            return self.stream.error(f"cut short: the file ends where {what} is expected")
        return self.stream.error(f"not JSON (expected {what}, got {ascii(mark)[1:]})")


def _end(pattern: re.Pattern[bytes], buffer: bytes, at: int) -> int:
    match = pattern.match(buffer, at)
    return match.end() if match else at
