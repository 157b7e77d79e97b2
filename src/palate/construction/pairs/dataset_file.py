"""Pairs as one Parquet file, from which `datasets` and palate read the same."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from palate.errors import needing, writing
from palate.files import whole_file
from palate.records import PreferencePair

FILE = "test-00000-of-00001.parquet"
"""A name by which `datasets` knows the split, without a configuration."""
TEXTS = (
    "id", "user_id", "subset", "category", "date", "question", "chosen", "rejected", "mirror_of",
    "narrative", "reference", "attribution", "source_url",
)  # fmt: skip
LISTS = {
    "turns": ("role", "content"),
    "profile": ("id", "category", "text", "date"),
    "rubric_aspects": ("aspect", "reason", "evidence"),
}


def write_pairs(folder: Path, pairs: Sequence[PreferencePair]) -> Path:
    """Write the pairs' columns that hold anything, every text and date as a string; same bytes.

    Raises `ResourceError` where that cannot be written.
    """
    pa, parquet = import_pyarrow()
    rows = [pair.to_row() for pair in pairs]
    text = pa.string()

    def struct(names: Iterable[str]) -> Any:
        return pa.struct([(name, text) for name in names])

    types = {
        **dict.fromkeys(TEXTS, text),
        **{name: pa.list_(struct(names)) for name, names in LISTS.items()},
        "traits": struct(sorted({name for row in rows for name in row["traits"]})),
    }
    columns = [(n, of) for n, of in types.items() if any(row.get(n) for row in rows)]
    table = pa.Table.from_pylist(rows, schema=pa.schema(columns))
    path = folder / FILE
    with writing(path), whole_file(path) as stream:
        parquet.write_table(table, stream)
    return path


def import_pyarrow() -> tuple[Any, Any]:
    """Return `pyarrow` and its Parquet; raises `UsageError` where they are not installed."""
    with needing("build pairs needs", "hub"):
        import huggingface_hub  # noqa: F401 - writes the card
        import pyarrow
        import pyarrow.parquet
    return pyarrow, pyarrow.parquet
