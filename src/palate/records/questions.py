"""One user's question and its gold; with a choice between two responses, a preference pair."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from itertools import groupby
from typing import Any, ClassVar, Literal, NamedTuple
from unicodedata import normalize

from pydantic import (
    BaseModel,
    ConfigDict,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
)

from palate.errors import first_line
from palate.records.arguments import grouped
from palate.records.dates import DateText, Instant, instant_of, oldest_first
from palate.seeding import digest

NO_WIDTH = re.compile("[\u00ad\u200b\u200e\u200f\u2060\ufeff]")
"""Soft hyphen, zero-width space, marks of direction, word joiner and BOM. What joins or parts
letters (U+200C, U+200D) is spelling, and stays."""
REMOVED = frozenset(("[removed]", "[deleted]", "[deleted by user]", "[removed by reddit]"))


class Record(BaseModel):
    """A frozen record; unknown fields are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class WhereGiven(Record):
    """A record of which some fields are written only where they hold something."""

    where_given: ClassVar[frozenset[str]]

    @model_serializer(mode="wrap")
    def _without_the_rest(self, written: SerializerFunctionWrapHandler) -> dict[str, Any]:
        fields: dict[str, Any] = written(self)
        empty = {name for name in self.where_given if fields.get(name) in (None, (), [])}
        return {name: value for name, value in fields.items() if name not in empty}


class Message(Record):
    """One message of a conversation."""

    role: Literal["system", "user", "assistant"]
    content: str


Messages = tuple[Message, ...]


class Post(Record):
    """One thing a user wrote."""

    id: str
    category: str = ""
    text: str
    date: DateText | None = None
    """As it came; without it the order of the file counts, oldest first."""

    @property
    def instant(self) -> Instant | None:
        """When it was written."""
        return instant_of(self.date)


class Choice(WhereGiven):
    """One earlier preference of a user."""

    # Hashes of choices of one turn stay what they were before there were turns.
    where_given = frozenset({"turns"})

    question: str
    chosen: str
    rejected: str
    turns: tuple[Message, ...] = ()
    """What was said before the question, oldest first."""

    @property
    def messages(self) -> tuple[Message, ...]:
        """The question as the user's last message, after the turns before it."""
        return conversation(self.turns, self.question)

    @property
    def query(self) -> str:
        """What it is searched for by: all that the user asked."""
        return of_user(self.turns, self.question)

    @property
    def key(self) -> str:
        """What tells its question, turns included, from others."""
        return question_key(self.turns, self.question)


class RubricAspect(Record):
    """One thing this user expects of a good answer; gold, never shown to a scorer."""

    aspect: str
    reason: str = ""
    evidence: str = ""


class Gold(Record):
    """What explains a preference and where it comes from; no scorer ever sees it.

    Quality metrics read it, and contexts with `oracle = True`.
    """

    narrative: str | None = None
    """What the user says they need."""
    aspects: tuple[RubricAspect, ...] = ()
    reference: str | None = None
    """What the user wrote themselves, or an answer known to be good."""
    ratings: tuple[float | None, float | None] = (None, None)
    """What the user gave chosen and rejected."""
    rating_scale: tuple[float, float] | None = None
    attribution: str | None = None
    source_url: str | None = None


class QuestionView(NamedTuple):
    """What a context may know of a question: no id, no label, no gold."""

    text: str
    category: str = ""
    responses: tuple[str, ...] = ()
    """All that are known, sorted."""
    turns: tuple[Message, ...] = ()
    """What was said before the question, oldest first."""

    @property
    def messages(self) -> tuple[Message, ...]:
        """The question as the user's last message, after the turns before it."""
        return conversation(self.turns, self.text)

    @property
    def query(self) -> str:
        """What posts and choices are searched with: all that the user asks."""
        return of_user(self.turns, self.text)


class Question(Record):
    """One user's question, with any number of responses."""

    id: str
    user_id: str
    """Who asks; the row's own id where the data names no user."""
    text: str
    turns: tuple[Message, ...] = ()
    """What was said before the question, oldest first; the question is the user's next message."""
    category: str = ""
    subset: str = "all"
    split: str | None = None
    profile: tuple[Post, ...] = ()
    """What this user had written before the question, oldest first."""
    traits: Mapping[str, str] = {}
    responses: tuple[str, ...] = ()
    gold: Gold = Gold()
    date: DateText | None = None
    """When it was asked, as it came."""
    extra: Mapping[str, Any] = {}
    """Columns palate does not know: kept, named once, never rendered."""

    @property
    def view(self) -> QuestionView:
        """What a context may know of the question.

        >>> Question(id="1", user_id="ann", text="Tea?", responses=("Yes.", "No.")).view
        QuestionView(text='Tea?', category='', responses=('No.', 'Yes.'), turns=())
        """
        responses = tuple(sorted(self._known_responses()))
        return QuestionView(self.text, self.category, responses, self.turns)

    @property
    def messages(self) -> tuple[Message, ...]:
        """The question as the user's last message, after the turns before it."""
        return conversation(self.turns, self.text)

    @property
    def key(self) -> str:
        """What tells the question, turns included, from others."""
        return question_key(self.turns, self.text)

    @property
    def normal_key(self) -> str:
        """The same of texts in normal form: rows that ask the same share it."""
        return question_key(self.turns, self.text, normal_form)

    @property
    def instant(self) -> Instant | None:
        """When it was asked."""
        return instant_of(self.date)

    @property
    def content(self) -> str:
        """Hash of the question and its responses: rows are matched by id and this."""
        return digest(self.key, *self.responses)[:16]

    def to_row(self) -> dict[str, Any]:
        """Return the question under the columns of the row contract; unknown columns apart.

        >>> row = Question(id="1", user_id="ann", text="Tea?").to_row()
        >>> row["question"], row["user_id"], "chosen" in row
        ('Tea?', 'ann', False)
        """
        unread = {"text", "turns", "gold", "responses", "date", "extra"}
        if getattr(self, "chosen_again", None) is None:
            unread.add("chosen_again")
        fields = self.model_dump(mode="json", exclude=unread)
        turns = [turn.model_dump(mode="json") for turn in self.turns]
        gold = self.gold.model_dump(mode="json", exclude={"aspects", "ratings"})
        aspects = [aspect.model_dump(mode="json") for aspect in self.gold.aspects]
        chosen, rejected = self.gold.ratings
        return {
            **fields,
            **gold,
            "question": self.text,
            "rubric_aspects": aspects,
            "chosen_rating": chosen,
            "rejected_rating": rejected,
            **({"responses": list(self.responses)} if self.responses else {}),
            **({"date": self.date} if self.date else {}),
            **({"turns": turns} if turns else {}),
        }

    def _known_responses(self) -> set[str]:
        return set(self.responses)


class PreferencePair(Question):
    """A question with the response that its user prefers and one that they like less."""

    chosen: str
    rejected: str
    chosen_again: str | None = None
    """Which of the two the user preferred when asked once more: no row, as a vote counts once."""
    tie: bool = False
    """True where the user could not decide; then the two stand in any order."""
    mirror_of: str | None = None
    """The id of the pair of another user that asks the same and wants the opposite."""

    @property
    def content(self) -> str:
        """Hash of the question and the two responses: rows are matched by id and this."""
        return digest(self.key, self.chosen, self.rejected)[:16]

    @property
    def alike(self) -> bool | None:
        """Whether the user chose so again; None where nobody asked."""
        return None if self.chosen_again is None else self.chosen_again == self.chosen

    def _known_responses(self) -> set[str]:
        return {self.chosen, self.rejected, *self.responses}


def choices_of(pairs: Iterable[PreferencePair]) -> dict[str, list[Choice]]:
    """Return what each user preferred, oldest first where all of it is dated, else as given."""
    return {
        user: [
            Choice(question=pair.text, turns=pair.turns, chosen=pair.chosen, rejected=pair.rejected)
            for pair in oldest_first(listed)
        ]
        for user, listed in grouped(pairs, lambda pair: pair.user_id).items()
    }


def conversation(turns: Iterable[Message], question: str) -> tuple[Message, ...]:
    r"""Return what a model is asked: the turns, and the question as the user's last message.

    Messages of one role in a row are read as one, a blank line between them: many chat templates
    refuse two.

    >>> turns = (Message(role="user", content="Hi."), Message(role="user", content="Tea."))
    >>> conversation(turns, "Which?")
    (Message(role='user', content='Hi.\n\nTea.\n\nWhich?'),)
    """
    messages = *turns, Message(role="user", content=question)
    return tuple(
        Message(role=role, content="\n\n".join(message.content for message in alike))
        for role, alike in groupby(messages, lambda message: message.role)
    )


def of_user(turns: Iterable[Message], question: str) -> str:
    """Return all that the user asks, a line break between messages: what is searched with.

    A last message such as "Shorter, please." does not tell what a conversation is about.

    >>> turns = Message(role="user", content="Tea?"), Message(role="assistant", content="Black?")
    >>> of_user(turns, "No, green.")
    'Tea?\\nNo, green.'
    """
    return "\n".join((*(turn.content for turn in turns if turn.role == "user"), question))


def question_key(turns: Iterable[Message], question: str, form: Callable[[str], str] = str) -> str:
    """Return what tells questions apart: the text, or a hash of it and the turns before it.

    `form` is applied to every text.

    >>> question_key((), "Tea?"), len(question_key([Message(role="user", content="Hi")], "Tea?"))
    ('Tea?', 64)
    """
    before = [(turn.role, form(turn.content)) for turn in turns]
    return digest("conversation", before, form(question)) if before else form(question)


def normal_form(text: str) -> str:
    r"""Return a text's form for matching: Unicode's NFC, each run of white space as one blank.

    Line ends are white space; at both ends there is none. What has no width is left out. Nobody is
    shown this form.

    >>> normal_form("Ne\u0301e\r\n in  Tea. ") == normal_form("N\u00e9e\nin Tea.")
    True
    """
    if text.isascii():
        plain = text.isprintable() and "  " not in text and text[:1] != " " != text[-1:]
        return text if plain else " ".join(text.split())
    return normalize("NFC", " ".join(NO_WIDTH.sub("", text).split()))


def is_removed(text: object) -> bool:
    """Tell whether a text stands in for one that was taken away.

    >>> is_removed(" [removed] "), is_removed("It was [removed].")
    (True, False)
    """
    return isinstance(text, str) and text.strip().lower() in REMOVED


def problem_of(error: Exception) -> str:
    """Return in one line what stood in the way of reading a record: the field, if there is one."""
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg'].lower()}"
    return first_line(error)
