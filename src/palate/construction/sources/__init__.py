"""Sources of questions that pairs are built from: users' posts, rows, dumps."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from palate.construction.sources.contract_rows import RowQuestions
from palate.construction.sources.post_store import PostStore
from palate.construction.sources.posts import read_posts
from palate.construction.sources.question_source import Partner, QuestionSource
from palate.construction.sources.stack_exchange import dump_files, store_dump
from palate.construction.sources.stored_questions import StoredQuestions
from palate.data import files_of, stem
from palate.errors import DataError, ResourceError, UsageError

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
    if layout == "rows":
        yield RowQuestions(source, keep_ids=keep_ids, skip_bad_rows=skip_bad_rows)
        return
    try:
        with closing(PostStore(keep_ids=keep_ids)) as store:
            bad_rows: list[DataError] | None = [] if skip_bad_rows else None
            if layout == "posts":
                subset, posts = stem(source.name), read_posts(files_of(source))
                reading = store.read(posts, bad_rows=bad_rows)
            else:
                files = dump_files(source)
                subset = files[0].resolve().parent.name
                reading = store_dump(store, files, bad_rows=bad_rows)
            yield StoredQuestions(store, reading, subset, str(source))
    except sqlite3.Error as error:
        raise ResourceError(f"the temporary file of the source: {error}; see TMPDIR") from error


__all__ = ["LAYOUTS", "Partner", "QuestionSource", "open_source"]
