"""A Stack Exchange dump: every answer, against another author's answer to the same question."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from palate.construction.own_text.entries import EarlierText, Entries, OwnTextEntry
from palate.construction.sources.post_store import MOST_POSTS, PostStore, StoredPost, attribution
from palate.construction.sources.stack_exchange import store_dump
from palate.construction.sources.stored_questions import NO_AUTHOR
from palate.construction.stage import Dropped
from palate.errors import DataError

NO_QUESTION = "its question is not in the dump"
ANSWERS = "SELECT n FROM posts WHERE parent IS NOT NULL ORDER BY n"
EARLIER = "post.user = ? AND post.settled <= ? AND post.parent <> ? AND question.n IS NOT NULL"
"""What an author had answered to other questions and did not edit since."""


def read_dump(files: list[Path]) -> Entries:
    """Yield the answers, and the errors of rows that cannot be read.

    Raises `DataError` where the file itself cannot be read on.
    """
    with closing(PostStore(keep_ids=False)) as store:
        bad_rows: list[DataError] = []
        store_dump(store, files, bad_rows=bad_rows)
        yield from bad_rows
        for (n,) in store.db.execute(ANSWERS).fetchall():
            yield _entry(store, store.get(n))


def _entry(store: PostStore, answer: StoredPost) -> OwnTextEntry | Dropped:
    if answer.user is None:
        return Dropped(NO_AUTHOR)
    parent = store.posts("post.id = ?", answer.parent)
    if not parent:
        return Dropped(NO_QUESTION)
    question = parent[0].full_text
    earlier = store.posts(EARLIER, answer.user, answer.start, answer.parent, most=MOST_POSTS)
    return OwnTextEntry(
        id=answer.id,
        user=str(answer.user_id),
        question=question,
        source=question,
        text=answer.text,
        earlier=tuple(_earlier(store, post) for post in earlier),
        date=answer.date,
        category=answer.category,
        attribution=_credit(parent[0], [answer, *earlier]),
        is_beside=True,
    )


def _earlier(store: PostStore, answer: StoredPost) -> EarlierText:
    (parent,) = store.posts("post.id = ?", answer.parent)
    question = parent.full_text
    return EarlierText(
        id=answer.id,
        text=answer.text,
        question=question,
        source=question,
        date=answer.date,
        attribution=_credit(parent, [answer]),
    )


def _credit(parent: StoredPost, answers: list[StoredPost]) -> str:
    return f"question: {attribution([parent])}; answer: {attribution(answers)}"
