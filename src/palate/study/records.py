"""The records of a study: what is asked, who is asked what, and what an answer says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from palate.records import Message, Part, Record, Slate, normal_form
from palate.seeding import digest

Side = Literal["first", "second"]
"""One of an item's two answers, which stand sorted: their order tells of nothing."""
Choice = Literal["first", "second", "same", "skip"]
DIMENSIONS = ("correctness", "relevance", "helpfulness")
LOWEST, HIGHEST = 1, 5
Score = Annotated[int, Field(strict=True, ge=LOWEST, le=HIGHEST)]
ShortHash = Annotated[str, Field(pattern="^[0-9a-f]{16}$")]


class Planned(Record):
    """What a plan names by its hash, so that it can be told when it was changed."""

    @property
    def hash(self) -> str:
        """Return the hash of all its fields."""
        return digest(type(self).__name__, self.model_dump(mode="json"))[:32]


class StudyItem(Planned):
    """A slate as people are asked about it."""

    id: ShortHash
    """Hash of question, shown parts and answers: two rows with one slate are one item."""
    pair: ShortHash
    """Hash of question and answers in normal form, whatever is shown."""
    kind: Literal["pair", "check"] = "pair"
    asks: Literal["better", "prefers"]
    """Which answer is better, with ratings of both; or which this person would prefer."""
    question: tuple[Message, ...]
    shown: tuple[Part, ...] = ()
    answers: tuple[str, str]
    category: str = ""
    expected: Side | None = None
    """Of a check: the answer to its question."""
    users: tuple[str, ...] = ()
    """Keys of those whose question or posts it holds; on no page and in no list."""

    @classmethod
    def of(cls, slate: Slate, **more: object) -> StudyItem:
        """Return the item of a slate, whichever candidate stands first.

        >>> from palate.records import Message
        >>> tea = (Message(role="user", content="Tea?"),)
        >>> slates = [Slate(question=tea, candidates=both) for both in (("a", "b"), ("b", "a"))]
        >>> first, second = map(StudyItem.of, slates)
        >>> first.id == second.id, first.answers, first.asks
        (True, ('a', 'b'), 'better')
        """
        answers = sorted(slate.candidates)
        question = [(message.role, normal_form(message.content)) for message in slate.question]
        return cls.model_validate(
            {
                "id": digest("item", slate.prompt_key, answers)[:16],
                "pair": digest("pair", question, sorted(map(normal_form, answers)))[:16],
                "asks": "prefers" if slate.shown else "better",
                "question": slate.question,
                "shown": slate.shown,
                "answers": answers,
                **more,
            }
        )

    @property
    def slate(self) -> Slate:
        """Return what a scorer would get."""
        return Slate(question=self.question, shown=self.shown, candidates=self.answers)


class ListEntry(Record):
    """One item in a rater's list."""

    item: ShortHash
    swapped: bool
    """Whether the item's second answer stands first on the page."""
    again: bool = False
    """Whether the rater has met it before, and is asked once more."""


class GoldRow(Planned):
    """A row of the benchmark behind an item; in a file that no page reads."""

    item: ShortHash
    context: str
    row: str
    """The row's id."""
    chosen: Side
    user: str
    """Key of the row's user."""


class Trait(Record):
    """A question of the questionnaire, with its fixed options."""

    name: str
    question: str
    options: tuple[str, ...] = Field(min_length=2)


class StudyPlan(Planned):
    """All that is fixed before anybody is asked; `plan.json` holds it with its hash."""

    mode: Literal["judge", "collect"] = "judge"
    benchmark: str
    content_hash: str
    """Of the rows that were planned with."""
    contexts: tuple[str, ...]
    seed: int
    raters: int
    per_pair: int
    """Raters an item is meant for."""
    margin: float
    """In points of a rating."""
    most_failed_checks: int
    """Who fails more is excluded."""
    items: Mapping[str, str]
    """Id of every item, checks too, and the hash of its record."""
    gold: tuple[str, ...]
    """Hashes of the rows behind them, sorted."""
    left_out: tuple[str, ...] = ()
    """Ids that slates would have that show nothing under a context that shows something."""
    checks: tuple[str, ...]
    lists: tuple[tuple[ListEntry, ...], ...]
    """What each rater is asked, in order; of a collection, the test pairs, the same for all."""
    consent: str
    """Markdown."""
    texts: Mapping[str, str]
    """Words of the pages."""
    traits: tuple[Trait, ...] = ()
    test_share: float = 0.0
    again: float = 0.0
    """Of a collection: the share of earlier pairs asked once more."""
    per_rater: int | None = None
    """Of a collection: questions asked of each."""
    model: str | None = None
    """Of a collection: the personal model that chooses what is asked next."""
    model_hash: str | None = None


class AnswerRow(Record):
    """One rater's answer to one item: a line of `palate study export`."""

    rater: str
    item: ShortHash
    pair: ShortHash
    kind: Literal["pair", "check"] = "pair"
    asks: Literal["better", "prefers"]
    again: bool = False
    contexts: tuple[str, ...] = ()
    """Under which rows of the benchmark are shown so; none for checks and collections."""
    rows: tuple[tuple[str, str], ...] = ()
    """(context, row id) of each of them."""
    responses: tuple[ShortHash, ShortHash]
    """Of the first and the second answer, as rows of runs name them."""
    gold: Side | Literal["both"] | None = None
    """What the rows' users chose: `both` for a mirrored couple, whose users chose oppositely."""
    expected: Side | None = None
    left: Side
    """Which stood first on the page."""
    choice: Choice
    ratings: Mapping[str, tuple[Score, Score]] = {}
    """Of the first and the second answer, by dimension; empty with posts and where skipped."""
    seconds: float | None = None
    date: str
    category: str = ""
    traits: Mapping[str, str] = {}
    changed: int = 0
    """How often the rater changed the answer."""
    excluded: bool = False
    """Whether the rater failed more checks than the plan allows."""
