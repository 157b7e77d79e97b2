"""POST /classify and /pooling: a reward model behind vLLM, its `user` a row or a user.

Its clients ask GET /v1/models for the model's name first.
"""

from __future__ import annotations

import time
from typing import Annotated, Any, Literal, Self
from uuid import uuid4

from fastapi import APIRouter, Request
from pydantic import BaseModel, BeforeValidator, model_validator
from pydantic_core import PydanticCustomError

from palate.data.rows import read_turns
from palate.errors import DataError
from palate.records import Message, Slate
from palate.rewards import RewardRequest
from palate.serve.batches import Item
from palate.serve.bodies import ForeignBody, Name, NoIds, Text, numbers, refusal
from palate.serve.resolving import Resolver
from palate.serve.service import service_of

router = APIRouter()
LABEL = "LABEL_0"
OneOrMany = BeforeValidator(
    lambda value: [value] if isinstance(value, str) else value,
    json_schema_input_type=str | list[str] | None,
)


THOUGHTS = frozenset({"thinking", "redacted_thinking", "reasoning"})


class TextPart(ForeignBody):
    """A part of a message's content."""

    type: Literal["text", "input_text", "output_text"]
    text: Text


def _joined(value: Any) -> Any:
    """Return the text of a content in parts, as vLLM joins them; thoughts are left out."""
    if not isinstance(value, list) or not all(isinstance(part, dict) for part in value):
        return value
    read = [part for part in value if part.get("type") not in THOUGHTS]
    texts = []
    for part in read:
        if part.get("type") not in {"text", "input_text", "output_text"}:
            raise PydanticCustomError("part", "expected parts of text alone")
        if not isinstance(part.get("text"), str):
            raise PydanticCustomError("part", "a part of text has no `text`")
        texts.append(part["text"])
    return "\n".join(texts)


Parts = BeforeValidator(_joined, json_schema_input_type=str | list[TextPart])


class ChatMessage(ForeignBody):
    """One message of a conversation."""

    role: Literal["system", "user", "assistant"]
    content: Annotated[Text, Parts]


class ClassifyBody(ForeignBody):
    """A conversation that a response closes, or texts."""

    messages: list[ChatMessage] | None = None
    input: Annotated[list[Text] | None, NoIds, OneOrMany] = None
    user: Name | None = None
    """The id of a row, or of a user of the data; "" and null are nobody."""
    use_activation: Literal[False] | None = None
    """Rewards are raw: true is refused."""

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.messages is None) == (self.input is None):
            raise ValueError("expected `messages` or `input`")
        if self.messages is not None and [m.role for m in self.messages][-1:] != ["assistant"]:
            raise ValueError("`messages` must end with the assistant's response")
        if self.messages is not None and len(self.messages) < 2:
            raise ValueError("`messages` must hold what the response answers")
        if self.input == []:
            raise ValueError("`input` is empty")
        return self


class PoolingBody(ClassifyBody):
    """The same, as vLLM's /pooling takes it."""

    task: Literal["classify"] | None = None
    encoding_format: Literal["float"] | None = None


class Usage(BaseModel):
    """Tokens, which are not counted: rows of one prompt are read once, together."""

    prompt_tokens: None = None
    total_tokens: None = None
    completion_tokens: int = 0


class VllmReply(BaseModel):
    """What both endpoints reply around their rows."""

    id: str
    object: Literal["list"] = "list"
    created: int
    model: str
    data: list[dict[str, Any]]
    usage: Usage = Usage()


class ServedModel(BaseModel):
    """The scorer under its context, as a model."""

    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str = "palate"


class ModelsReply(BaseModel):
    """The one model that is served."""

    object: Literal["list"] = "list"
    data: list[ServedModel]


@router.get("/v1/models")
def models(request: Request) -> ModelsReply:
    """Name what is served, as replies name it; any `model` in a request is accepted."""
    named = ServedModel(id=service_of(request).spec, created=int(time.time()))
    return ModelsReply(data=[named])


@router.post("/classify")
async def classify(body: ClassifyBody, request: Request) -> VllmReply:
    """Score as vLLM's /classify: the raw reward stands in `probs`."""
    values = await _rewards(body, request)
    return _reply(
        request,
        [
            {"index": k, "label": LABEL, "probs": [value], "num_classes": 1}
            for k, value in enumerate(values)
        ],
    )


@router.post("/pooling")
async def pooling(body: PoolingBody, request: Request) -> VllmReply:
    """Score as vLLM's /pooling."""
    values = await _rewards(body, request)
    return _reply(
        request,
        [{"index": k, "object": "pooling", "data": [value]} for k, value in enumerate(values)],
    )


async def _rewards(body: ClassifyBody, request: Request) -> list[float]:
    service = service_of(request)
    items = _items(body, service.resolver())
    values = await service.rewards(items, request)
    return numbers(values, "messages" if body.messages else "input[{}]")


def _items(body: ClassifyBody, resolver: Resolver) -> list[Item]:
    if body.messages is not None:
        return [_conversation(body.messages, body.user, resolver)]
    texts = body.input or []
    if not body.user:
        return [resolver.rendered(text, f"input[{k}]") for k, text in enumerate(texts)]
    if not resolver.reward.has_row(body.user) and body.user in resolver.reward.users:
        raise refusal("input", "is a response alone; with a user's id send `messages`")
    return [resolver.row(body.user, text, "user") for text in texts]


def _conversation(messages: list[ChatMessage], user: str | None, resolver: Resolver) -> Item:
    *before, response = messages
    if not user:
        resolver.need_as_it_stands("user")
        asked_so = tuple(Message(role=m.role, content=m.content) for m in before)
        return Slate(question=asked_so, candidates=(response.content,))
    if resolver.reward.has_row(user):
        return resolver.row(user, response.content, "user")
    *earlier, question = before
    if question.role != "user":
        raise refusal("messages", "with a user's id: a question of theirs before the response")
    try:
        turns = read_turns([message.model_dump() for message in earlier])
    except DataError as error:
        raise refusal("messages", error.problem) from error
    return RewardRequest(
        question=question.content,
        turns=turns,
        responses=(response.content,),
        user=resolver.user(user, question.content, "user", turns),
    )


def _reply(request: Request, data: list[dict[str, Any]]) -> VllmReply:
    return VllmReply(
        id=f"palate-{uuid4().hex}",
        created=int(time.time()),
        data=data,
        model=service_of(request).spec,
    )
