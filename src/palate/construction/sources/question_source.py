"""Users' questions with what they had written before, as every layout gives them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from palate.construction.leaks import (
    NOT_EARLIER,
    SAME_INPUT,
    SHARES_REFERENCE,
    Guard,
    is_earlier,
)
from palate.construction.stage import Stage
from palate.records import Gold, Post, Question
from palate.seeding import digest

QUESTIONS, PROFILE_POSTS = "questions", "profile posts"
NO_POST_LEFT, NO_TEXT = "no earlier post left", "empty text"
REPEATS = {SAME_INPUT: "repeats the question", SHARES_REFERENCE: "repeats the narrative"}


class Partner(NamedTuple):
    """Another user's view of a question."""

    question: Question
    """The question's text, with this user's id and posts."""
    has_asked: bool
    """Whether it is a row of theirs; else they never asked, and it has no narrative."""


class QuestionSource(Protocol):
    """Questions of users, in a fixed order, and partners for them."""

    @property
    def stages(self) -> Sequence[Stage[Any, Any]]:
        """What reading, dates and leaks dropped; the last two once all questions were read."""

    @property
    def n_askers(self) -> int:
        """Users who ask a question with an earlier post, before leaks are left out."""

    def questions(self) -> Iterator[Question]:
        """Yield the questions with a profile: posts before the question, oldest first."""

    def partner(self, question: Question, seed: int) -> Partner | None:
        """Return a user who asks the same, else one of the subset drawn by the seed.

        None where no other user has a post that may be shown.
        """


class PostBeside(NamedTuple):
    """A post on its way into the profile of a question."""

    post: Post
    question: Question
    guard: Guard


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
        self.posts = Stage.by_reason("leaks", PROFILE_POSTS, _reason)
        self.questions: Stage[Question, Question] = Stage.by_reason(
            "profile", QUESTIONS, lambda question: None if question.profile else NO_POST_LEFT
        )

    def run(self, questions: Iterator[Question]) -> Iterator[Question]:
        """Yield the questions that have a post left, with those posts alone."""
        return self.questions.run(
            question.model_copy(update={"profile": self.safe(question, question.profile)})
            for question in questions
        )

    def safe(self, question: Question, posts: Sequence[Post]) -> tuple[Post, ...]:
        """Return the posts that may stand beside the question."""
        guard = Guard(question.text, question.text, question.gold.narrative or "")
        rows = (PostBeside(post, question, guard) for post in posts)
        return tuple(row.post for row in self.posts.run(rows))


def drawn_row(question: Question, rows: Iterable[Question], seed: int) -> Question | None:
    """Return one of the rows, if any: of several, the two of the least digest are each other's."""
    by_draw = {digest(seed, *sorted((question.id, row.id))): row for row in rows}
    return by_draw[min(by_draw)] if by_draw else None


def partner_of(
    question: Question, user_id: str, posts: Sequence[Post], attribution: str | None
) -> Partner | None:
    """Return a user who never asked this, with those of their posts that may be shown, if any."""
    safe = SafeProfiles().safe(question, posts)
    other = Question(
        id=f"{question.id}-{user_id}",
        user_id=user_id,
        text=question.text,
        category=question.category,
        subset=question.subset,
        date=question.date,
        profile=safe,
        gold=Gold(attribution=attribution),
    )
    return Partner(other, has_asked=False) if safe else None


def _reason(row: PostBeside) -> str | None:
    if is_earlier(row.post.date, row.question.date) is False:
        return NOT_EARLIER
    if not row.post.text.strip():
        return NO_TEXT
    reason = row.guard.reason(row.post.text, None)
    return None if reason is None else REPEATS[reason]
