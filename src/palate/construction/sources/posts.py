"""Posts as rows: `user_id, text, date`, where known `id, title, category, attribution, edited`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from palate.construction.fields import as_mapping, date_of, possible_text, text_of
from palate.construction.sources.post_store import PostRow
from palate.data import read_file
from palate.errors import DataError
from palate.records.dates import date_text


def read_posts(files: Sequence[Path]) -> Iterator[PostRow | DataError]:
    """Yield the posts of files, and the errors of rows that are none."""
    for path in files:
        for number, value in read_file(path):
            try:
                row = as_mapping(value)
                date = date_of(row)
                if date is None:
                    raise DataError(
                        "missing; a profile holds earlier posts alone, so each needs its date",
                        field="date",
                    )
                yield PostRow(
                    place=(str(path), number),
                    id=possible_text(row, "id") or f"{path.name.partition('.')[0]}-{number}",
                    user=text_of(row, "user_id"),
                    text=text_of(row, "text"),
                    date=date,
                    title=possible_text(row, "title") or None,
                    edited=date_text(row.get("edited")),
                    category=possible_text(row, "category"),
                    attribution=possible_text(row, "attribution"),
                )
            except DataError as error:
                yield DataError(error.problem, file=str(path), line=number, field=error.field)
