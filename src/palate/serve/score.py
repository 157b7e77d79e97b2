"""Palate's own formats: POST /score and POST /feedback.

A score may be of users in the call, and a missing one has its reason; what a user chose is kept for
`palate adapt`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Self

from fastapi import APIRouter, HTTPException, Request
from fastapi.concurrency import run_in_threadpool
from pydantic import ConfigDict, Field, model_validator

from palate.data import read_question, read_turns
from palate.errors import DataError
from palate.records import Choice, Message, User
from palate.rewards import RewardRequest
from palate.serve.service import ExactBody, Name, NoIds, RewardService, Text, refusal, service_of

router = APIRouter()
OF_A_USER = ("user", "question", "turns", "profile", "choices", "traits")
"""What an item brings that names no row."""
STRING = {"type": "string"}
FROM_ROW = {
    "required": ["row"],
    "properties": {"row": STRING},
    "not": {"anyOf": [{"required": [name]} for name in OF_A_USER]},
}
FROM_USER = {
    "required": ["user", "question"],
    "not": {"required": ["row"]},
    "properties": {"user": STRING, "question": STRING},
}
SINGLE = {"required": ["response"], "properties": {"response": STRING}}
SEVERAL = {"required": ["responses"], "properties": {"responses": {"minItems": 1}}}
ITEM_SCHEMA: dict[str, Any] = {
    "allOf": [{"oneOf": [FROM_ROW, FROM_USER]}, {"oneOf": [SINGLE, SEVERAL]}]
}
"""What `ScoreItem` checks between its fields, for readers of the schema."""


class EarlierMessage(ExactBody):
    """A message before the question."""

    role: Literal["user", "assistant", "system"]
    content: Text


class ProfilePost(ExactBody):
    """What a user wrote before the question."""

    text: Text
    id: Name | None = None
    category: str | None = None
    date: str | None = None


class PastChoice(ExactBody):
    """An earlier choice of a user."""

    question: Text
    turns: list[EarlierMessage] = []
    chosen: Text
    rejected: Text


class ScoreItem(ExactBody):
    """Responses to a row of the data, or to a question of a user."""

    model_config = ConfigDict(json_schema_extra=ITEM_SCHEMA)
    row: Name | None = None
    user: Name | None = None
    """Without profile, choices and traits the data must know the user."""
    question: Text | None = None
    turns: list[EarlierMessage] = []
    """What was said before the question, oldest first."""
    profile: list[ProfilePost] = []
    choices: list[PastChoice] = []
    traits: dict[str, str] = {}
    response: Text | None = None
    responses: Annotated[list[Text], NoIds] = []

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if (self.row is None) == (self.user is None or self.question is None):
            raise ValueError("expected `row`, or `user` and `question`")
        if self.row is not None and any(getattr(self, name) for name in OF_A_USER):
            raise ValueError("a row brings its own user and question")
        if (self.response is None) == (not self.responses):
            raise ValueError("expected `response`, or `responses` with one or more")
        return self

    @property
    def texts(self) -> tuple[str, ...]:
        """The responses."""
        return tuple(self.responses) if self.response is None else (self.response,)


class ScoreBody(ExactBody):
    """What is to be scored."""

    items: Annotated[list[ScoreItem], Field(min_length=1)]


class ItemScores(ExactBody):
    """The scores of one item's responses, in order; where one is null, why."""

    scores: list[float | None]
    reasons: list[str | None]


class ScoreReply(ExactBody):
    """The scores of every item, in order."""

    items: list[ItemScores]


@router.post("/score")
async def score(body: ScoreBody, request: Request) -> ScoreReply:
    """Score responses for rows of the data, or for users in the call."""
    service = service_of(request)
    service.queue.ready()  # else 503, whatever is wrong with the body

    def read() -> list[RewardRequest]:
        return [_requested(item, f"items[{k}]", service) for k, item in enumerate(body.items)]

    if all(item.row is not None for item in body.items):
        requests = read()
    else:  # long profiles take a while, in which the server answers others
        requests = await run_in_threadpool(read)
    scored = [
        ItemScores(scores=[it.value for it in values], reasons=[it.reason for it in values])
        for values in await service.rewards(requests, request)
    ]
    return ScoreReply(items=scored)


def _requested(item: ScoreItem, field: str, service: RewardService) -> RewardRequest:
    """Return the request of an item; raises 404 and 422 naming what is wrong with which."""
    if item.row is not None:
        service.need_row(item.row, f"{field}.row")
        return RewardRequest(row=item.row, responses=item.texts)
    assert item.user is not None and item.question is not None, "checked by the model"
    turns = turns_of(item.turns, f"{field}.")
    if item.profile or item.choices or item.traits:
        user = _user(item, field)
    else:
        user = service.user(item.user, item.question, f"{field}.user", turns)
    return RewardRequest(question=item.question, turns=turns, user=user, responses=item.texts)


def turns_of(turns: Sequence[EarlierMessage], within: str = "") -> tuple[Message, ...]:
    """Return turns as the row contract reads them; raises 422 naming the field of one it refuses.

    >>> turns_of([EarlierMessage(role="user", content="Tea?")])
    (Message(role='user', content='Tea?'),)
    """
    try:
        return read_turns([turn.model_dump() for turn in turns])
    except DataError as error:
        raise refusal(f"{within}{error.field}", error.problem) from error


def _user(item: ScoreItem, field: str) -> User:
    # The row contract says what a post may be: it refuses one that is the question.
    row: Mapping[str, Any] = {
        "id": "live",
        "user_id": item.user,
        "question": item.question,
        "traits": item.traits,
        "turns": [turn.model_dump() for turn in item.turns],
        "profile": [post.model_dump(exclude_none=True) for post in item.profile],
    }
    try:
        question = read_question(row, subset="all")
    except DataError as error:
        named = "user" if error.field == "user_id" else error.field
        raise refusal(f"{field}.{named}", error.problem) from error
    choices = tuple(
        Choice(
            **choice.model_dump(exclude={"turns"}),
            turns=turns_of(choice.turns, f"{field}.choices[{k}]."),
        )
        for k, choice in enumerate(item.choices)
    )
    posts, traits = question.profile, question.traits
    return User(id=question.user_id, posts=posts, choices=choices, traits=traits)


class FeedbackBody(ExactBody):
    """A user's choice between two responses."""

    user: Name
    question: Text
    turns: list[EarlierMessage] = []
    """What was said before the question, oldest first."""
    responses: Annotated[list[Text], NoIds, Field(min_length=2, max_length=2)]
    chosen: Annotated[int, Field(strict=True, ge=0, le=1)]
    """The position of the chosen response."""


class FeedbackReply(ExactBody):
    """The row that is on disk."""

    id: str
    date: str


@router.post("/feedback", status_code=201)
def feedback(body: FeedbackBody, request: Request) -> FeedbackReply:
    """Keep a choice; the answer comes once it is on disk."""
    service = service_of(request)
    if (file := service.settings.feedback) is None:
        raise HTTPException(404, "this server keeps no feedback (see --feedback)")
    chosen, rejected = body.responses[body.chosen], body.responses[1 - body.chosen]
    try:
        row = file.append(body.user, body.question, chosen, rejected, turns_of(body.turns))
    except DataError as error:
        field = {"user_id": "user", "question": "question"}.get(error.field or "", "responses")
        raise refusal(field, error.problem) from error
    except OSError as error:
        raise HTTPException(500, f"the choice is not kept ({error.strerror or error})") from error
    service.metrics.feedback.inc()
    return FeedbackReply(id=row["id"], date=row["date"])
