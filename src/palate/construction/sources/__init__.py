"""Sources of questions that pairs are built from: users' posts, rows, dumps."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from palate.construction.sources.contract_rows import RowQuestions
from palate.construction.sources.question_source import Partner, QuestionSource
from palate.errors import UsageError

LAYOUTS = ("posts", "rows", "stackexchange")


@contextmanager
def open_source(
    source: Path, layout: str, *, keep_ids: bool = False, skip_bad_rows: bool = False
) -> Iterator[QuestionSource]:
    """Give the questions of a source while it is open.

    `layout` is posts, rows or stackexchange. Users and posts are numbered in order of appearance
    unless `keep_ids`. Raises `DataError` for the first bad row unless `skip_bad_rows`, and
    `UsageError` for another layout.
    """
    if layout not in LAYOUTS:
        raise UsageError(f"--layout {layout}: expected one of {', '.join(LAYOUTS)}")
    if layout != "rows":
        raise UsageError(f"--layout {layout}: not read yet")
    yield RowQuestions(source, keep_ids=keep_ids, skip_bad_rows=skip_bad_rows)


__all__ = ["LAYOUTS", "Partner", "QuestionSource", "open_source"]
