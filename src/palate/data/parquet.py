"""Parquet files, read batch by batch with the row's number."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from palate.errors import DataError, needing


def read_parquet(path: Path) -> Iterator[tuple[int, Any]]:
    """Yield (row number from 1, row or its `DataError`).

    Raises `DataError` where the file itself cannot be read, or names two columns alike.
    """
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
