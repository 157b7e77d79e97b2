"""POST /predict: a reward model behind text-embeddings-inference; it has no place for a row."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field

from palate.serve.bodies import ForeignBody, NoIds, Text, numbers
from palate.serve.service import service_of

router = APIRouter()
LABEL = "LABEL_0"
OneText = Annotated[list[Text], Field(min_length=1, max_length=1)]


class PredictBody(ForeignBody):
    """Rendered conversations, each in a list of its own: a list of texts would be a pair."""

    inputs: Annotated[list[OneText], NoIds, Field(min_length=1)]
    raw_scores: Literal[True] | None = None
    """Rewards are raw: false is refused."""
    truncate: Literal[False] | None = None
    """A conversation is never cut: true is refused."""


class Prediction(BaseModel):
    """The head's one number."""

    label: str = LABEL
    score: float


@router.post("/predict")
async def predict(body: PredictBody, request: Request) -> list[list[Prediction]]:
    """Score rendered conversations as text-embeddings-inference does."""
    service = service_of(request)
    resolver = service.resolver()
    items = [resolver.rendered(text, f"inputs[{k}]") for k, (text,) in enumerate(body.inputs)]
    values = numbers(await service.rewards(items, request), "inputs[{}]")
    return [[Prediction(score=value)] for value in values]
