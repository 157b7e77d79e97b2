"""Requests of a reward, completions of trainers, reward values, and the scale of rewards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol, Self, runtime_checkable

import numpy as np
from pydantic import FiniteFloat, ValidationError, model_validator

from palate.errors import UsageError
from palate.marks import OpenThought, after_thought, prompt_end, thought_within
from palate.records import Message, Record, Scores, User
from palate.records.questions import problem_of

EMPTY = "empty answer"
NO_MESSAGE = "no message of the assistant"
WITHIN = "a thought in the midst of the answer"
TEXTS = frozenset({"text", "output_text"})
"""Kinds of content blocks that the user reads; thoughts, pictures and calls are others."""


class RewardRequest(Record):
    """Answers to one question of one user: a row of the data by id, or both in the call.

    >>> RewardRequest(responses=("Tea.",), row="ann-1").row
    'ann-1'
    >>> RewardRequest(responses=("Tea.",), question="Tea?", user=User(id="ann")).user.id
    'ann'

    Raises `ValueError` for a row beside a question, turns or a user, and for one of these alone.
    """

    responses: tuple[str, ...]
    """They are one slate: what they share is read once."""
    row: str | None = None
    question: str | None = None
    turns: tuple[Message, ...] = ()
    """What was said before the question, oldest first."""
    user: User | None = None
    """With their posts before the question, oldest first, and their earlier choices."""

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        given = self.question is not None, self.user is not None
        if given != (self.row is None,) * 2:
            raise ValueError("expected a row, or a question and a user")
        if self.turns and self.row is not None:
            raise ValueError("a row brings its own turns")
        return self


LiveUser = User | Mapping[str, Any]
"""A user given in the call, or what is known of them."""


def user_of(given: LiveUser) -> User:
    """Return a user of whom `traits`, `posts`, `choices` or an `id` are given.

    Posts are texts, or mappings with `text`, the oldest first. Raises `UsageError` naming what
    cannot be read.

    >>> user_of({"traits": {"age": "30"}, "posts": ["I only drink tea."]}).posts[0].text
    'I only drink tea.'
    """
    if isinstance(given, User):
        return given
    listed = posts if isinstance(posts := given.get("posts", ()), list | tuple) else [posts]
    try:
        read = [{"text": post} if isinstance(post, str) else post for post in listed]
        named = [{"id": f"{k}", **post} for k, post in enumerate(read)]
        return User.model_validate({"id": "in the call", **given, "posts": named})
    except (TypeError, ValidationError) as error:
        raise UsageError(f"user: {problem_of(error)}") from error


class HasText(Protocol):
    """An answer, however it was drawn."""

    @property
    def text(self) -> str:
        """What it says."""


def row_requests(rows: Sequence[str], answers: Sequence[Sequence[HasText]]) -> list[RewardRequest]:
    """Return a request for the answers to each row of the data."""
    return [
        RewardRequest(row=row, responses=tuple(answer.text for answer in of_row))
        for row, of_row in zip(rows, answers, strict=True)
    ]


class RewardValue(NamedTuple):
    """The reward of one answer, or None with its reason."""

    value: float | None
    reason: str | None = None


class RatedResponse(Record):
    """What a user gave a response, on a scale of their own."""

    question: str
    response: str
    rating: FiniteFloat
    turns: tuple[Message, ...] = ()
    """What was said before the question, oldest first."""


@runtime_checkable
class ReadsRendered(Protocol):
    """A scorer that also reads conversations as a chat template wrote them, whoever's they are."""

    def score_rendered(self, texts: Sequence[str]) -> Scores:
        """Return one number for each text, in order."""


class Scale(Record):
    """Mean and standard deviation of the rewards of a policy's answers.

    A reward on it is (r − mean) / deviation, so that a coefficient beside it, such as that of a KL
    penalty, means the same for every scorer.
    """

    mean: float
    deviation: float
    n: int
    """Answers with a reward."""
    policy: str | None = None
    samples: str | None = None
    """Content hash of the answers."""

    @classmethod
    def of(cls, values: Sequence[Sequence[float | None]]) -> Scale:
        """Return the scale of rewards, one list for each row; those that are missing are left out.

        Raises `UsageError` where no row has two different rewards: such a reward teaches nothing.

        >>> scale = Scale.of([[1.0, 3.0], [None, 5.0]])
        >>> scale.mean, round(scale.deviation, 3), scale.n
        (3.0, 1.633, 3)
        """
        rows = [[value for value in row if value is not None] for row in values]
        if not any(len({*row}) > 1 for row in rows):
            raise UsageError(
                f"all answers to a row have one reward, in each of {len(rows)} rows: the scorer "
                "does not read the answer, or all answers are alike; there is nothing to learn"
            )
        every = np.array([value for row in rows for value in row])
        return cls(mean=float(every.mean()), deviation=float(every.std()), n=every.size)

    def on(self, value: float) -> float:
        """Return a reward on this scale.

        >>> Scale(mean=3.0, deviation=2.0, n=3).on(7.0)
        2.0
        """
        return (value - self.mean) / self.deviation


class Answer(NamedTuple):
    """What the user reads of a completion, or None with the reason."""

    text: str | None
    reason: str | None = None


def last_text(completion: Any, prompt: Any = None) -> Answer:
    """Return the text of a completion: a text, or messages of which the last counts.

    A message's content is a text or a list of blocks. None where the last message is not the
    assistant's, such as a tool's. The thought that a text prompt ends within begins the text.

    >>> last_text([{"role": "assistant", "content": [{"type": "text", "text": "Tea."}]}]).text
    'Tea.'
    >>> last_text([{"role": "assistant"}, {"role": "tool", "content": "21 °C"}]).reason
    'ends with a message of tool'
    """
    if completion is None or isinstance(completion, str):
        completion = {"content": completion or ""}
    messages = [completion] if isinstance(completion, Mapping) else completion
    last = messages[-1] if isinstance(messages, Sequence) and messages else None
    if not isinstance(last, Mapping):
        return Answer(None, NO_MESSAGE)
    if (role := last.get("role", "assistant")) != "assistant":
        return Answer(None, f"ends with a message of {role}")
    mark = prompt_end(prompt).mark if isinstance(prompt, str) else ""
    return Answer(mark + _joined(last.get("content")))


def row_number(value: Any) -> Any:
    """Return an id as text or number: trainers hold numbers in arrays and tensors, or as 7.0.

    A float that its own precision may have rounded stays a float, which is no id.
    """
    bits = {1: 3, 2: 8, 4: 24}.get(getattr(getattr(value, "dtype", None), "itemsize", 8), 53)
    plain = value.item() if getattr(value, "shape", None) in ((), (1,)) else value
    whole = isinstance(plain, float) and plain.is_integer() and abs(plain) < 2**bits
    return int(plain) if whole else plain


def spoken(text: str) -> Answer:
    """Return a text without its opening thought; None if that does not end, or another follows.

    >>> spoken("<think>Tea or milk?</think>Tea.").text
    'Tea.'
    """
    try:
        answer = after_thought(text)
    except OpenThought as error:
        return Answer(None, str(error))
    if thought_within(answer):
        return Answer(None, WITHIN)
    return Answer(text if answer == text.strip() else answer)


def _joined(content: Any) -> str:
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, Sequence) else ()
    return "".join(
        block if isinstance(block, str) else str(block.get("text") or "")
        for block in blocks
        if isinstance(block, str) or (isinstance(block, Mapping) and block.get("type") in TEXTS)
    )
