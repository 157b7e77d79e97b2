"""One user's question and its gold; with a choice between two responses, a preference pair."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from palate.records.conversations import Message, conversation, of_user, question_key
from palate.records.dates import DateText, Instant, instant_of, oldest_first
from palate.records.normal_form import normal_form
from palate.records.record import Record
from palate.records.users import Choice, Post, RubricAspect
from palate.seeding import digest


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
        fields = self.model_dump(
            mode="json", exclude={"text", "turns", "gold", "responses", "date", "extra"}
        )
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
    tie: bool = False
    """True where the user could not decide; then the two stand in any order."""
    mirror_of: str | None = None
    """The id of the pair of another user that asks the same and wants the opposite."""

    @property
    def content(self) -> str:
        """Hash of the question and the two responses: rows are matched by id and this."""
        return digest(self.key, self.chosen, self.rejected)[:16]

    def _known_responses(self) -> set[str]:
        return {self.chosen, self.rejected, *self.responses}


def choices_of(pairs: Iterable[PreferencePair]) -> dict[str, list[Choice]]:
    """Return what each user preferred, oldest first where all of it is dated, else as given."""
    of_users: dict[str, list[PreferencePair]] = {}
    for pair in pairs:
        of_users.setdefault(pair.user_id, []).append(pair)
    return {
        user: [
            Choice(question=pair.text, turns=pair.turns, chosen=pair.chosen, rejected=pair.rejected)
            for pair in oldest_first(listed)
        ]
        for user, listed in of_users.items()
    }
