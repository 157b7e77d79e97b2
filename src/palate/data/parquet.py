"""Parquet files, read batch by batch with the row's number."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from palate.errors import DataError, UsageError


def read_parquet(path: Path) -> Iterator[tuple[int, Any]]:
    """Yield (row number from 1, row); raises `DataError` where the file cannot be read."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise UsageError(f"{path}: Parquet needs pip install 'palate[hub]'") from error
    try:
        row = 0
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=256):
                for value in batch.to_pylist():
                    row += 1
                    yield row, value
    except (OSError, pa.ArrowInvalid) as error:
        raise DataError(f"not a readable Parquet file ({error})", file=str(path)) from error
