"""Rows of an XML file, `<row name="value" …/>`, read one by one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from xml.parsers import expat

from palate.data.streams import MAX_LINE, ByteStream
from palate.errors import DataError

CHUNK = 2**16


def read_xml_rows(path: Path, root: str) -> Iterator[tuple[int, Mapping[str, str]]]:
    """Yield (line, attributes) of every row below the root element.

    Raises `DataError` with the line for what is no such file: cut short, a character that XML does
    not allow, another element, a document type (which could define entities), a row over 32 MiB.
    """
    rows: list[tuple[int, Mapping[str, str]]] = []
    depth = 0

    def start(name: str, attributes: Mapping[str, str]) -> None:
        nonlocal depth
        if name != (root, "row")[min(depth, 1)] or depth > 1:
            expected = f"<{root}>" if not depth else f"<row> in <{root}>"
            raise refused(f"expected {expected}, got <{name}>")
        depth += 1
        if name == "row":
            rows.append((parser.CurrentLineNumber, attributes))

    def end(name: str) -> None:
        nonlocal depth
        depth -= 1

    def doctype(*_: object) -> None:
        raise refused("has a DOCTYPE, which a dump has not")

    def refused(problem: str) -> DataError:
        return DataError(problem, file=str(path), line=parser.CurrentLineNumber)

    parser = expat.ParserCreate()
    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.StartDoctypeDeclHandler = doctype
    n_read, more = 0, True
    with ByteStream(path) as stream:
        stream.line = 1
        while more:
            chunk = stream.read(CHUNK)
            n_read, more = n_read + len(chunk), bool(chunk)
            try:
                parser.Parse(chunk, not more)
            except expat.ExpatError as error:
                raise DataError(
                    f"not XML, or cut short ({expat.ErrorString(error.code)})",
                    file=str(path),
                    line=error.lineno,
                ) from None
            except (LookupError, ValueError) as error:  # of the encoding that a file names
                raise DataError(f"cannot be decoded ({error})", file=str(path), line=1) from None
            stream.line = parser.CurrentLineNumber
            if n_read - parser.CurrentByteIndex > MAX_LINE:
                raise stream.error(f"the row is over {MAX_LINE >> 20} MiB")
            yield from rows
            rows.clear()
