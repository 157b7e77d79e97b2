"""Rows of the contract, LaMP-QA's files too: questions with their profiles and rubrics."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from palate.construction.sources.question_source import (
    QUESTIONS,
    Partner,
    SafeProfiles,
    drawn_row,
    partner_of,
)
from palate.construction.stage import Dropped, Stage
from palate.data import load_rows, stem
from palate.errors import DataError
from palate.records import Post, PreferencePair, Question
from palate.seeding import shuffled

PAST = "adapt"
UNREADABLE, PAST_CHOICE, LONGER = "cannot be read", "a past choice", "follows earlier turns"
CONFIG = re.compile(r"(.+)_(?:train|validation|test)")
"""LaMP-QA names a file `{config}_{split}.json`."""


class Numbers:
    """Numbers in the place of ids, in order of appearance."""

    def __init__(self) -> None:
        self._users: dict[str, str] = {}
        self._posts: dict[tuple[str, str], str] = {}

    def user(self, name: str) -> str:
        """Return the number of a user."""
        return self._users.setdefault(name, str(len(self._users) + 1))

    def post(self, user: str, post: Post) -> Post:
        """Return a user's post under its number."""
        number = self._posts.setdefault((user, post.id), str(len(self._posts) + 1))
        return post.model_copy(update={"id": number})


class RowQuestions:
    """The questions of a file of rows, in its order; answers and users' choices are not read."""

    def __init__(self, source: Path, *, keep_ids: bool, skip_bad_rows: bool) -> None:
        name = stem(source.name)
        config = CONFIG.fullmatch(name)
        loaded = load_rows(
            source, subset=config[1] if config else name, skip_bad_rows=skip_bad_rows
        )
        mirror_of = {
            row.id: row.mirror_of for row in loaded.rows if isinstance(row, PreferencePair)
        }
        numbers = None if keep_ids else Numbers()
        reading: Stage[Question | DataError, Question] = Stage(
            "reading", QUESTIONS, lambda rows: (_question(row, numbers) for row in rows)
        )
        safe = SafeProfiles()
        self._questions = tuple(safe.run(reading.run((*loaded.rows, *loaded.bad_rows))))
        self.stages: tuple[Stage[Any, Any], ...] = (reading, safe.posts, safe.questions)
        self.n_askers = len({question.user_id for question in self._questions})
        self._by_id = {question.id: question for question in self._questions}
        self._mirror_of = {name: other for name, other in mirror_of.items() if other}
        self._same: dict[str, list[Question]] = {}
        self._of_subset: dict[str, dict[str, list[Question]]] = {}
        for question in self._questions:
            self._same.setdefault(question.normal_key, []).append(question)
            of_users = self._of_subset.setdefault(question.subset, {})
            of_users.setdefault(question.user_id, []).append(question)

    def questions(self) -> Iterator[Question]:
        """Yield the questions with a profile, in the order of the file."""
        return iter(self._questions)

    def partner(self, question: Question, seed: int) -> Partner | None:
        """Return the mirror row, else another user's row of the same text, else a user drawn."""
        mirror = self._by_id.get(self._mirror_of.get(question.id, ""))
        same = [mirror] if mirror else self._same.get(question.normal_key, [])
        rows = (row for row in same if row.user_id != question.user_id)
        if row := drawn_row(question, rows, seed):
            return Partner(row, has_asked=True)
        others = self._of_subset[question.subset]
        for user_id in shuffled([*others], "partner", seed, question.id):
            if user_id != question.user_id:
                for row in shuffled(others[user_id], "posts", seed, question.id):
                    if partner := partner_of(question, user_id, row.profile, row.gold.attribution):
                        return partner
        return None


def _question(row: Question | DataError, numbers: Numbers | None) -> Question | Dropped:
    if isinstance(row, DataError):
        return Dropped(UNREADABLE)
    if row.split == PAST:
        return Dropped(PAST_CHOICE)
    if row.turns:
        return Dropped(LONGER)
    posts = tuple(numbers.post(row.user_id, post) for post in row.profile) if numbers else ()
    return Question(
        **{name: getattr(row, name) for name in ("id", "text", "category", "subset", "date")},
        user_id=numbers.user(row.user_id) if numbers else row.user_id,
        profile=posts or row.profile,
        gold=row.gold.model_copy(
            update={"reference": None, "ratings": (None, None), "rating_scale": None}
        ),
    )
