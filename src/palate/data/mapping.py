"""`--map`: columns of a file under the names of the contract."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from palate.data.rows import CHOICE, KNOWN, REQUIRED
from palate.errors import DataError, UsageError

OF_LAYOUTS = frozenset({"response", "response_a", "response_b", "score", "winner"})
"""Names that layouts know and the contract does not."""


def parse_columns(pairs: Iterable[str]) -> dict[str, str]:
    """Read `--map chosen=better` flags.

    >>> parse_columns(["chosen=better", "question=prompt"])
    {'chosen': 'better', 'question': 'prompt'}
    """
    columns: dict[str, str] = {}
    for text in pairs:
        ours, equals, theirs = text.partition("=")
        if not equals or not theirs or ours not in KNOWN | OF_LAYOUTS:
            known = ", ".join(sorted(KNOWN | OF_LAYOUTS))
            raise UsageError(f"--map {text}: write palate's column=your column (one of {known})")
        columns[ours] = theirs
    return columns


class Mapped:
    """Rows under mapped names; `unmet` holds what no row had."""

    def __init__(self, rows: Iterable[tuple[int, Any]], columns: Mapping[str, str]) -> None:
        self.rows, self.columns, self.unmet = rows, columns, dict(columns)

    def __iter__(self) -> Iterator[tuple[int, Any]]:
        """Yield (row number, row or its `DataError`)."""
        for number, row in self.rows:
            if not self.columns or not isinstance(row, Mapping):
                yield number, row
                continue
            self.unmet = {o: t for o, t in self.unmet.items() if t not in row}
            try:
                yield number, _renamed(row, self.columns)
            except DataError as error:
                yield number, error

    def check(self, source: str) -> None:
        """Raise `DataError` where a column was named that no row had."""
        for ours, theirs in self.unmet.items():
            raise DataError(
                f"no row has {theirs!r} (from --map {ours}={theirs})", file=source, field=ours
            )


def _renamed(row: Mapping[str, Any], columns: Mapping[str, str]) -> dict[str, Any]:
    mapped = dict(row)
    for column, source in columns.items():
        if source not in row:
            if column in (*REQUIRED, *CHOICE):
                raise DataError(
                    f"no column {source!r} (from --map {column}={source})", field=column
                )
            mapped.pop(column, None)
            continue
        mapped[column] = row[source]
        if source not in columns and source not in KNOWN:
            mapped.pop(source, None)
    return mapped
