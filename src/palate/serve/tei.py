"""POST /predict: a reward model behind text-embeddings-inference; it has no place for a row."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from fastapi import APIRouter, Request
from pydantic import BaseModel, BeforeValidator, Field, ModelWrapValidatorHandler, model_validator
from pydantic_core import PydanticCustomError

from palate.serve.bodies import ForeignBody, NoIds, Text, numbers
from palate.serve.service import service_of

router = APIRouter()
LABEL = "LABEL_0"
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
    resolver = service.resolver()
    items = [resolver.rendered(text, f"inputs[{k}]") for k, (text,) in enumerate(body.inputs)]
    values = numbers(await service.rewards(items, request), "inputs[{}]")
    if body._single:
        return [Prediction(score=value) for value in values]
    return [[Prediction(score=value)] for value in values]
