"""open_source(path, layout) → users' questions with what they had written before."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from palate.construction.leaks import (
    NOT_EARLIER,
    SAME_INPUT,
    SHARES_REFERENCE,
    Guard,
    is_earlier,
    text_key,
)
from palate.construction.post_store import (
    NO_AUTHOR,
    PostRow,
    PostStore,
    Row,
    StoredPost,
    attribution,
)
from palate.construction.rows import Dropped, Stage, date_of, possible_text, read_each, text_of
from palate.construction.stack_exchange import dump_files, store_dump
from palate.data import LoadOptions, files_of, load_rows, read_file, stem
from palate.errors import DataError, ResourceError, UsageError
from palate.records import Gold, Post, PreferencePair, Question, is_nobody, is_removed
from palate.records.dates import date_text
from palate.seeding import digest, rng, shuffled

LAYOUTS = ("posts", "rows", "stackexchange")
NO_EARLIER, EDITED = "no earlier post", "every earlier post was edited later"
TITLED = "FROM posts AS post LEFT JOIN users ON users.n = post.user WHERE title IS NOT NULL"
"""The questions; their users' posts begin at `ever`, and to be shown at `first`."""
QUESTIONS, PROFILE_POSTS = "questions", "profile posts"
NO_POST_LEFT, NO_TEXT = "no earlier post left", "empty text"
PAST = "adapt"
BAD_ROW, PAST_CHOICE, LONGER = "cannot be read", "a past choice", "follows earlier turns"
CONFIG = re.compile(r"(.+)_(?:train|validation|test)")
"""LaMP-QA names a file `{config}_{split}.json`."""
REPEATS = {SAME_INPUT: "repeats the question", SHARES_REFERENCE: "repeats the narrative"}


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
                reading = store.read(posts, bad_rows)
            else:
                files = dump_files(source)
                subset = files[0].resolve().parent.name
                reading = store_dump(store, files, bad_rows)
            yield StoredQuestions(store, reading, subset, str(source))
    except sqlite3.Error as error:
        raise ResourceError(f"the temporary file of the source: {error}; see TMPDIR") from error


class Partner(NamedTuple):
    """Another user's view of a question."""

    question: Question
    """The question's text, with this user's id and posts."""
    has_asked: bool
    """Whether it is a row of theirs; else they never asked, and it has no narrative."""


class SafeProfiles:
    """Leaves out posts that are not earlier than a question or repeat it, and counts them.

    >>> question = Question(id="1", user_id="ann", text="Which tea keeps me awake?", date="2020")
    >>> texts = {"Which tea keeps me awake?": "2019", "I sleep badly.": "2019", "Help!": "2021"}
    >>> posts = [Post(id=text, text=text, date=date) for text, date in texts.items()]
    >>> profiles = SafeProfiles()
    >>> [post.text for post in profiles.safe(question, posts)]
    ['I sleep badly.']
    >>> dict(profiles.posts.counts.dropped)
    {'repeats the question': 1, 'not earlier': 1}
    """

    def __init__(self) -> None:
        self.posts, self.questions = Stage("leaks", PROFILE_POSTS), Stage("profile", QUESTIONS)

    def run(self, questions: Iterable[Question]) -> Iterator[Question]:
        """Yield the questions that have a post left, with those posts alone."""
        for question in questions:
            profile = self.safe(question, question.profile)
            if self.questions.goes_on(None if profile else NO_POST_LEFT):
                yield question.model_copy(update={"profile": profile})

    def safe(self, question: Question, posts: Sequence[Post]) -> tuple[Post, ...]:
        """Return the posts that may stand beside the question."""
        guard = Guard(question.text, question.text, question.gold.narrative or "")

        def reason(post: Post) -> str | None:
            if is_earlier(post.date, question.date) is False:
                return NOT_EARLIER
            if not post.text.strip():
                return NO_TEXT
            return REPEATS.get(guard.reason(post.text, None) or "")

        return tuple(self.posts.leave_out(posts, reason))


def drawn_row(question: Question, rows: Iterable[Question], seed: int) -> Question | None:
    """Return one of the rows, if any: of several, the two of the least digest are each other's."""
    by_draw = {digest(seed, *sorted((question.id, row.id))): row for row in rows}
    return by_draw[min(by_draw)] if by_draw else None


def partner_of(
    question: Question, user_id: str, posts: Sequence[Post], attribution: str | None
) -> Partner | None:
    """Return a user who never asked this, with those of their posts that may be shown, if any."""
    safe, gold = SafeProfiles().safe(question, posts), Gold(attribution=attribution)
    name = f"{question.id}-{user_id}"
    other = Question(**shared_fields(question), id=name, user_id=user_id, profile=safe, gold=gold)
    return Partner(other, has_asked=False) if safe else None


class RowQuestions:
    """The questions of a file of rows, in its order; answers and users' choices are not read.

    `stages` counts what reading and leaks dropped, `n_askers` the users who ask.
    """

    def __init__(self, source: Path, *, keep_ids: bool, skip_bad_rows: bool) -> None:
        name = stem(source.name)
        config = CONFIG.fullmatch(name)
        subset = config[1] if config else name
        loaded = load_rows(source, LoadOptions(skip_bad_rows=skip_bad_rows), subset=subset)
        pairs = (row for row in loaded.rows if isinstance(row, PreferencePair))
        self._mirror_of = {pair.id: pair.mirror_of for pair in pairs if pair.mirror_of}
        reading = Stage("reading", QUESTIONS)
        rows: tuple[Question | DataError, ...] = (*loaded.rows, *loaded.bad_rows)
        questions = reading.run(rows, _read_question)
        questions = questions if keep_ids else _numbered(questions)
        safe = SafeProfiles()
        self._questions = tuple(safe.run(questions))
        self.stages: tuple[Stage, ...] = (reading, safe.posts, safe.questions)
        self.n_askers = len({question.user_id for question in self._questions})
        self._by_id = {question.id: question for question in self._questions}
        self._same: dict[str, list[Question]] = {}
        self._of_subset: dict[str, dict[str, list[Question]]] = {}
        for question in self._questions:
            self._same.setdefault(question.normal_key, []).append(question)
            of_users = self._of_subset.setdefault(question.subset, {})
            of_users.setdefault(question.user_id, []).append(question)

    def questions(self) -> Iterator[Question]:
        """Yield the questions with a profile: posts before the question, oldest first."""
        return iter(self._questions)

    def partner(self, question: Question, seed: int) -> Partner | None:
        """Return the mirror row, else another user's row of the same text, else a user drawn.

        None where no other user has a post that may be shown.
        """
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


def _numbered(questions: Iterable[Question]) -> Iterator[Question]:
    """Yield questions with users' and posts' ids replaced by numbers, in order of appearance."""
    users: dict[str, str] = {}
    posts: dict[tuple[str, str], str] = {}
    for question in questions:
        profile = []
        for post in question.profile:
            number = posts.setdefault((question.user_id, post.id), str(len(posts) + 1))
            profile.append(post.model_copy(update={"id": number}))
        user = users.setdefault(question.user_id, str(len(users) + 1))
        yield question.model_copy(update={"profile": tuple(profile), "user_id": user})


def _read_question(row: Question | DataError) -> Question | Dropped:
    if isinstance(row, DataError):
        return Dropped(BAD_ROW)
    if row.split == PAST:
        return Dropped(PAST_CHOICE)
    if row.turns:
        return Dropped(LONGER)
    unread = {"reference": None, "ratings": (None, None), "rating_scale": None}
    gold = row.gold.model_copy(update=unread)
    shared, profile = shared_fields(row), row.profile
    return Question(**shared, id=row.id, user_id=row.user_id, profile=profile, gold=gold)


def shared_fields(question: Question) -> dict[str, Any]:
    """Return the fields that another user's view of a question has too."""
    return {name: getattr(question, name) for name in ("text", "category", "subset", "date")}


class StoredQuestions:
    """Every post with a title whose user had written something else before.

    `stages` counts what reading, dates and leaks dropped: of leaks once all questions were read.
    `n_askers` are the users who ask with an earlier post, before leaks are left out.
    """

    def __init__(self, store: PostStore, reading: Stage, subset: str, where: str) -> None:
        self._store, self._subset = store, subset
        titled = store.db.execute(f"SELECT post.n, start, first, ever {TITLED} ORDER BY post.n")
        earlier = Stage("earlier posts", QUESTIONS)
        self._numbers = [n for n, *_ in earlier.leave_out(titled, _lacks)]
        if not earlier.counts.n_read:
            raise DataError("holds no post with a title, so no question", file=where)
        self.stages: tuple[Stage, ...] = (reading, earlier)
        (self.n_askers,) = store.first(f"SELECT count(DISTINCT user) {TITLED} AND first <= start")
        listed = store.rows("SELECT first, n FROM users WHERE first IS NOT NULL ORDER BY first, n")
        self._first, self._users = np.array(listed, np.int64).reshape(-1, 2).T

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
                profile, credit = [post.post for post in posts], _credit(ask_post, posts)
                if partner := partner_of(question, str(posts[0].user_id), profile, credit):
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


QuestionSource = RowQuestions | StoredQuestions


def _credit(ask_post: StoredPost, earlier: Iterable[StoredPost]) -> str | None:
    parts = {"question": attribution([ask_post]), "posts": attribution(earlier)}
    return "; ".join(f"{part}: {text}" for part, text in parts.items() if text) or None


def _lacks(row: tuple[int, int, int | None, int | None]) -> str | None:
    _, start, first, ever = row
    if first is None or ever is None:
        return NO_AUTHOR
    return None if first <= start else EDITED if ever <= start else NO_EARLIER


NO_PERSON, NO_POST = "of nobody, as [deleted]", "deleted or removed"
UNKNOWN_EDIT = "edited at an unknown time"
NEVER, SOME_TIME = (False, None, "", "False", "false"), (True, "True", "true")
"""What `edited` holds besides a time."""


def read_posts(files: Sequence[Path]) -> Iterator[Row]:
    """Yield the posts of files, what is none, and the errors of rows that cannot be read.

    A row has `user_id, text, date`, and where known `id, title, category, attribution, edited`;
    rows of Reddit's dumps are read by their own columns.
    """
    for path in files:
        yield from read_each(path, read_file(path), _post)


def _post(row: Mapping[str, Any], path: Path, line: int) -> PostRow | Dropped:
    reddit = "user_id" not in row and {"author", "created_utc"} <= row.keys()
    row = _of_reddit(row) if reddit else row
    title = possible_text(row, "title") or None
    # A link of Reddit has a title alone.
    text = possible_text(row, "text") if reddit and title else text_of(row, "text")
    user, edited = text_of(row, "user_id"), row.get("edited")
    if is_removed(text):
        return Dropped(NO_POST)
    if is_nobody(user):
        return Dropped(NO_PERSON)
    if edited in SOME_TIME:
        return Dropped(UNKNOWN_EDIT)
    if (date := date_of(row)) is None:
        problem = "missing; a profile holds earlier posts alone, so each needs its date"
        raise DataError(problem, field="date")
    try:
        edited = None if edited in NEVER else date_text(edited)
    except DataError as error:
        raise DataError(f"{error.problem}, or false for never", field="edited") from None
    return PostRow(
        place=(str(path), line),
        id=possible_text(row, "id") or f"{path.name.partition('.')[0]}-{line}",
        user=user,
        text=text,
        date=date,
        title=title,
        edited=edited,
        category=possible_text(row, "category"),
        attribution=possible_text(row, "attribution"),
    )


def _of_reddit(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a comment or submission under our names; ids of both may be the same."""
    sort = "t3" if row.get("title") else "t1"
    name = row.get("name") or (f"{sort}_{row['id']}" if row.get("id") else None)
    ours = {"user_id": row["author"], "date": row["created_utc"], "id": name}
    ours |= {"text": row.get("body") or row.get("selftext"), "category": row.get("subreddit")}
    return ours | {field: row.get(field) for field in ("title", "edited")}
