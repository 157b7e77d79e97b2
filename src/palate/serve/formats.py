"""Formats of other servers of reward models: vLLM's, text-embeddings-inference's, OpenRLHF's.

POST /classify and /pooling are vLLM's, whose `user` names a row or a user; its clients ask GET
/v1/models for the model's name first. POST /predict has no place for a row. POST /get_reward is
OpenRLHF's remote reward model, whose `labels` name rows.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Self
from uuid import uuid4

from fastapi import APIRouter, Request
from fastapi.concurrency import run_in_threadpool
from pydantic import BaseModel, BeforeValidator, Field, ModelWrapValidatorHandler, model_validator
from pydantic_core import PydanticCustomError

from palate.data import read_turns
from palate.errors import DataError
from palate.marks import end_at, prompt_end
from palate.records import Message, Slate
from palate.rewards import RewardRequest
from palate.serve.batching import Item
from palate.serve.service import ForeignBody, Name, NoIds, RewardService, Text, refusal, service_of

router = APIRouter()
LABEL = "LABEL_0"
OneOrMany = BeforeValidator(
    lambda value: [value] if isinstance(value, str) else value,
    json_schema_input_type=str | list[str] | None,
)
THOUGHTS = frozenset({"thinking", "redacted_thinking", "reasoning"})
FIRST_TOKEN = re.compile(r"\s*(?:[<\[]\S{0,30}?[>\]])?")
"""What a tokenizer may put first, such as BOS."""
LEAST = 16
"""So many characters of a cut prompt must be left: fewer may be the response's own."""


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
    rows = [{"label": LABEL, "probs": [value], "num_classes": 1} for value in values]
    return _reply(request, rows)


@router.post("/pooling")
async def pooling(body: PoolingBody, request: Request) -> VllmReply:
    """Score as vLLM's /pooling."""
    values = await _rewards(body, request)
    return _reply(request, [{"object": "pooling", "data": [value]} for value in values])


async def _rewards(body: ClassifyBody, request: Request) -> list[float]:
    service = service_of(request)
    field = "messages" if body.messages else "input[{}]"
    return await service.numbers(_items(body, service), request, field)


def _items(body: ClassifyBody, service: RewardService) -> list[Item]:
    if body.messages is not None:
        return [_conversation(body.messages, body.user, service)]
    texts = body.input or []
    if not body.user:
        return [service.rendered(text, f"input[{k}]") for k, text in enumerate(texts)]
    if not service.reward.has_row(body.user) and body.user in service.reward.users:
        raise refusal("input", "is a response alone; with a user's id send `messages`")
    return [service.row(body.user, text, "user") for text in texts]


def _conversation(messages: list[ChatMessage], user: str | None, service: RewardService) -> Item:
    *before, response = messages
    if not user:
        service.need_as_it_stands("user")
        whole = tuple(Message(**message.model_dump()) for message in before)
        return Slate(question=whole, candidates=(response.content,))
    if service.reward.has_row(user):
        return service.row(user, response.content, "user")
    *earlier, question = before
    if question.role != "user":
        raise refusal("messages", "with a user's id: a question of theirs before the response")
    try:
        turns = read_turns([message.model_dump() for message in earlier])
    except DataError as error:
        raise refusal("messages", error.problem) from error
    known = service.user(user, question.content, "user", turns)
    answers = (response.content,)
    return RewardRequest(question=question.content, turns=turns, responses=answers, user=known)


def _reply(request: Request, rows: Sequence[Mapping[str, Any]]) -> VllmReply:
    return VllmReply(
        id=f"palate-{uuid4().hex}",
        created=int(time.time()),
        data=[{"index": k, **row} for k, row in enumerate(rows)],
        model=service_of(request).spec,
    )


OneText = Annotated[list[Text], Field(min_length=1, max_length=1)]


def _batch(value: Any) -> Any:
    """Return the form of a batch: a text, or one text in a list, is a batch of one."""
    if isinstance(value, str):
        return [[value]]
    if isinstance(value, list) and value and isinstance(value[0], str):
        if len(value) > 1:
            raise PydanticCustomError("pair", "a pair of texts; send a batch, [[text], [text]]")
        return [value]
    return value


Batch = BeforeValidator(
    _batch, json_schema_input_type=Text | OneText | Annotated[list[OneText], Field(min_length=1)]
)


class PredictBody(ForeignBody):
    """A rendered conversation, or a batch, in which each stands in a list of its own."""

    inputs: Annotated[list[OneText], NoIds, Field(min_length=1), Batch]
    raw_scores: Literal[True] | None = None
    """Rewards are raw: false is refused."""
    truncate: Literal[False] | None = None
    """A conversation is never cut: true is refused."""
    _single: bool = False

    @model_validator(mode="wrap")
    @classmethod
    def _form(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        body = handler(data)
        inputs = data["inputs"]
        body._single = isinstance(inputs, str) or isinstance(inputs[0], str)
        return body


class Prediction(BaseModel):
    """The head's one number."""

    label: str = LABEL
    score: float


@router.post("/predict")
async def predict(body: PredictBody, request: Request) -> list[Prediction] | list[list[Prediction]]:
    """Score rendered conversations as text-embeddings-inference does; one alone is in one list."""
    service = service_of(request)
    items = [service.rendered(text, f"inputs[{k}]") for k, (text,) in enumerate(body.inputs)]
    values = await service.numbers(items, request, "inputs[{}]")
    if body._single:
        return [Prediction(score=value) for value in values]
    return [[Prediction(score=value)] for value in values]


class GetRewardBody(ForeignBody):
    """Each query is a prompt and a response, decoded with special tokens; a shard may have none."""

    query: Annotated[list[Text], NoIds]
    prompts: Annotated[list[Text], NoIds] = []
    labels: list[Name | None] = []
    """Ids of rows (`--data.label_key`); "" or null scores the query as it stands."""

    @model_validator(mode="after")
    def _aligned(self) -> Self:
        for name in ("prompts", "labels"):
            n = len(getattr(self, name))
            if n not in {0, len(self.query)}:
                raise ValueError(f"`{name}` holds {n}, and `query` {len(self.query)}")
        return self


class GetRewardReply(BaseModel):
    """One number for each query."""

    rewards: list[float]


@router.post("/get_reward")
async def get_reward(body: GetRewardBody, request: Request) -> GetRewardReply:
    """Score queries as OpenRLHF sends them."""
    service, places = service_of(request), range(len(body.query))
    # Long texts take a while, in which the server answers others.
    items = await run_in_threadpool(lambda: [_queried(body, k, service) for k in places])
    return GetRewardReply(rewards=await service.numbers(items, request, "query[{}]"))


def _queried(body: GetRewardBody, k: int, service: RewardService) -> Item:
    row = body.labels[k] if body.labels else None
    if not row:
        return service.rendered(body.query[k], f"query[{k}]")
    service.need_row(row, f"labels[{k}]")
    if not body.prompts:
        raise refusal("prompts", "missing; without it the response cannot be told from the prompt")
    response = response_in(body.query[k], body.prompts[k], service.settings.ends)
    if response is None:
        raise refusal(f"query[{k}]", "begins neither with its prompt nor with the prompt's end")
    return service.row(row, prompt_end(body.prompts[k]).mark + response, f"labels[{k}]")


def response_in(query: str, prompt: str, ends: Sequence[str] = ()) -> str | None:
    """Return the response in a query, prompt and response in one; None where no prompt begins it.

    A tokenizer may put a token before the prompt, such as BOS, and decode white space otherwise
    than the prompt has it. A prompt over the model's window is cut on the left, so that the query
    begins with the prompt's end. Tokens that end the response, by their look or named in `ends`,
    are left out.

    >>> response_in("<s>Tea?<bot>Yes, please.<|im_end|>\\n", "Tea?<bot>")
    'Yes, please.'
    >>> response_in("is the question.<bot>Yes.</s>", "Tea or not, that is the question.<bot>")
    'Yes.'
    >>> response_in("Tea?", "Coffee?") is None
    True
    """
    start = _after_prompt(query, prompt)
    return None if start is None else without_end(query[start:], ends)


def without_end(text: str, ends: Sequence[str] = ()) -> str:
    """Return a text without the tokens that end its turn; the rest stays as it is.

    >>> without_end("Yes. <|im_end|>\\n<|endoftext|>"), without_end("Yes. ")
    ('Yes. ', 'Yes. ')
    """
    stop = len(text)
    while True:
        bare = stop
        while bare and text[bare - 1].isspace():
            bare -= 1
        named = next((end for end in ends if end and text.endswith(end, 0, bare)), None)
        start = end_at(text, bare) if named is None else bare - len(named)
        if start < 0:
            return text[:stop]
        stop = start


def _after_prompt(query: str, prompt: str) -> int | None:
    if (start := _after(query, prompt)) is not None:
        return start
    # A tokenizer may write a space that the prompt has not, or none: `<s> [INST]`.
    places = [k for k, letter in enumerate(query) if not letter.isspace()]
    start = _after("".join(query.split()), "".join(prompt.split()))
    if not start:
        return start
    start = places[start - 1] + 1
    space = prompt[len(prompt.rstrip()) :]
    return start + len(space) if query.startswith(space, start) else start


def _after(query: str, prompt: str) -> int | None:
    if query.startswith(prompt):
        return len(prompt)
    before, prompt_again, _ = query.partition(prompt)
    if prompt_again and FIRST_TOKEN.fullmatch(before.rstrip()):
        return len(before) + len(prompt)
    first = FIRST_TOKEN.match(query)
    for start in {0, first.end() if first else 0}:
        if (shared := overlap(prompt, query[start:])) >= LEAST:
            return start + shared
    return None


def overlap(prompt: str, query: str) -> int:
    """Return the length of the longest end of the prompt with which the query begins.

    The failure function of Knuth, Morris and Pratt, so that no text takes more than linear time.
    """
    both = [*query[: len(prompt)], None, *prompt]
    shared = [0] * len(both)
    for k in range(1, len(both)):
        length = shared[k - 1]
        while length and both[k] != both[length]:
            length = shared[length - 1]
        shared[k] = length + (both[k] == both[length])
    return shared[-1]
