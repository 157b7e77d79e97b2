"""Questions among stored posts, each with what its user had written before."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from palate.construction.leaks import text_key
from palate.construction.sources.post_store import PostStore, StoredPost, attribution
from palate.construction.sources.question_source import (
    QUESTIONS,
    Partner,
    SafeProfiles,
    drawn_row,
    partner_of,
)
from palate.construction.stage import Stage
from palate.errors import DataError
from palate.records import Gold, Question
from palate.seeding import rng

NO_AUTHOR, NO_EARLIER = "the author is gone", "no earlier post"
EDITED = "every earlier post was edited later"
TITLED = "FROM posts AS post LEFT JOIN users ON users.n = post.user WHERE title IS NOT NULL"
"""The questions; their users' posts begin at `ever`, and to be shown at `first`."""


class StoredQuestions:
    """Every post with a title whose user had written something else before."""

    def __init__(self, store: PostStore, reading: Stage[Any, Any], subset: str, where: str) -> None:
        self._store, self._subset = store, subset
        titled = store.db.execute(f"SELECT post.n, start, first, ever {TITLED} ORDER BY post.n")
        earlier = Stage.by_reason("earlier posts", QUESTIONS, _lacks)
        self._numbers = [n for n, *_ in earlier.run(titled)]
        if not earlier.counts.n_read:
            raise DataError("holds no post with a title, so no question", file=where)
        self.stages: tuple[Stage[Any, Any], ...] = (reading, earlier)
        (self.n_askers,) = store.db.execute(
            f"SELECT count(DISTINCT user) {TITLED} AND first <= start"
        ).fetchone()
        listed = store.db.execute(
            "SELECT first, n FROM users WHERE first IS NOT NULL ORDER BY first, n"
        ).fetchall()
        self._first, self._users = np.array(listed, np.int64).T

    def questions(self) -> Iterator[Question]:
        """Yield the questions with a profile, in the order of the file."""
        safe = SafeProfiles()
        self.stages = (*self.stages[:2], safe.posts, safe.questions)
        return safe.run(self._question(self._store.get(n)) for n in self._numbers)

    def partner(self, question: Question, seed: int) -> Partner | None:
        """Return another user's question of the same title, else a user drawn."""
        same = self._store.posts(
            "post.title_key = ? AND users.first <= post.start", text_key(question.text)
        )
        (ask_post,) = (post for post in same if post.id == question.id)
        rows = SafeProfiles().run(
            self._question(post) for post in same if post.user != ask_post.user
        )
        if row := drawn_row(question, rows, seed):
            return Partner(row, has_asked=True)
        n_before = int(np.searchsorted(self._first, ask_post.start, side="right"))
        for k in rng("partner", seed, question.id).permutation(n_before):
            if (user := int(self._users[k])) != ask_post.user:
                posts = self._store.earlier(user, ask_post.start)
                credit = _credit(ask_post, posts)
                if partner := partner_of(
                    question, str(posts[0].user_id), [post.post for post in posts], credit
                ):
                    return partner
        return None

    def _question(self, ask_post: StoredPost) -> Question:
        earlier = self._store.earlier(ask_post.user, ask_post.start)
        return Question(
            id=ask_post.id,
            user_id=str(ask_post.user_id),
            text=ask_post.title or "",
            category=ask_post.category,
            subset=self._subset,
            profile=tuple(post.post for post in earlier),
            gold=Gold(narrative=ask_post.text or None, attribution=_credit(ask_post, earlier)),
            date=ask_post.date,
        )


def _credit(ask_post: StoredPost, earlier: Iterable[StoredPost]) -> str | None:
    parts = {"question": attribution([ask_post]), "posts": attribution(earlier)}
    return "; ".join(f"{part}: {text}" for part, text in parts.items() if text) or None


def _lacks(row: tuple[int, int, int | None, int | None]) -> str | None:
    _, start, first, ever = row
    if first is None or ever is None:
        return NO_AUTHOR
    return None if first <= start else EDITED if ever <= start else NO_EARLIER
