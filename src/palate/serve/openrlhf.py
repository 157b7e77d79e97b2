"""POST /get_reward: OpenRLHF's remote reward model."""

from __future__ import annotations

from typing import Annotated, Self

from fastapi import APIRouter, Request
from fastapi.concurrency import run_in_threadpool
from pydantic import BaseModel, Field, model_validator

from palate.marks import prompt_end
from palate.serve.batches import Item
from palate.serve.bodies import ForeignBody, Name, NoIds, Text, numbers, refusal
from palate.serve.resolving import Resolver
from palate.serve.service import service_of
from palate.serve.texts import response_in

router = APIRouter()


class GetRewardBody(ForeignBody):
    """Each query is a prompt and a response, decoded with special tokens."""

    query: Annotated[list[Text], NoIds, Field(min_length=1)]
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
    service = service_of(request)
    resolver = service.resolver()
    # Long texts take a while, in which the server answers others.
    items = await run_in_threadpool(_items, body, resolver, service.ends)
    values = await service.rewards(items, request)
    return GetRewardReply(rewards=numbers(values, "query[{}]"))


def _items(body: GetRewardBody, resolver: Resolver, ends: tuple[str, ...]) -> list[Item]:
    return [_item(body, k, resolver, ends) for k in range(len(body.query))]


def _item(body: GetRewardBody, k: int, resolver: Resolver, ends: tuple[str, ...]) -> Item:
    row = body.labels[k] if body.labels else None
    if not row:
        return resolver.rendered(body.query[k], f"query[{k}]")
    resolver.need_row(row, f"labels[{k}]")
    if not body.prompts:
        raise refusal("prompts", "missing; without it the response cannot be told from the prompt")
    response = response_in(body.query[k], body.prompts[k], ends)
    if response is None:
        raise refusal(f"query[{k}]", "begins neither with its prompt nor with the prompt's end")
    return resolver.row(row, prompt_end(body.prompts[k]).mark + response, f"labels[{k}]")
