"""Rows of what other libraries hold in memory, told by what it can do: none is imported."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from palate.data.types import STRUCTURED, decoded, is_missing
from palate.errors import DataError, UsageError

TAKEN = (
    "a pandas or polars frame, a pyarrow table, a `datasets.Dataset`, or an iterable of mappings"
)


def rows_of_frame(frame: Any, structured: Iterable[str] = STRUCTURED) -> Iterator[tuple[int, Any]]:
    """Yield (number from 1, row or its `DataError`); NaN, NaT and NA are missing.

    Texts in `structured` columns that hold a list or an object as JSON are decoded.

    Raises `UsageError` for what holds no rows, for several splits, and for two columns of one name.

    >>> list(rows_of_frame([{"id": 1, "reference": float("nan")}]))
    [(1, {'id': 1, 'reference': None})]
    """
    names = set(structured)
    for number, row in enumerate(_rows(frame), 1):
        if not isinstance(row, Mapping):
            yield number, row
            continue
        try:
            yield (
                number,
                {
                    str(name): _plain(value, str(name), str(name) in names)
                    for name, value in row.items()
                },
            )
        except DataError as error:
            yield number, error


def _rows(frame: Any) -> Iterator[Any]:
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


def _plain(value: Any, field: str, structured: bool) -> Any:
    if isinstance(value, str):
        return (decoded(value, field) if value else None) if structured else value
    if isinstance(value, Mapping):
        return {name: _plain(part, field, False) for name, part in value.items()}
    if hasattr(value, "tolist"):  # an array of numpy, a number of it, a tensor
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(part, field, False) for part in value]
    return None if is_missing(value) else value
