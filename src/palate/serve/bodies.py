"""Types that several formats share: texts that are no token ids, names of rows, refusals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import HTTPException
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict
from pydantic_core import PydanticCustomError

from palate.data.rows import SURROGATE
from palate.serve.batches import ItemValues


def _no_ids(value: Any) -> Any:
    inner = value[0] if isinstance(value, list) and value else value
    if isinstance(inner, list) and inner:
        inner = inner[0]
    if isinstance(inner, int) and not isinstance(inner, bool):
        raise PydanticCustomError("token_ids", "expected text, got a number or token ids")
    return value


def _row_name(value: Any) -> Any:
    # The row contract reads a whole number as the text that it is.
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _unicode(value: str) -> str:
    if SURROGATE.search(value):
        raise PydanticCustomError("surrogate", "holds half a surrogate pair; not Unicode text")
    return value


NoIds = BeforeValidator(_no_ids)
Text = Annotated[str, NoIds, AfterValidator(_unicode)]
Name = Annotated[str, BeforeValidator(_row_name), AfterValidator(_unicode)]
"""The id of a row or a user."""


class ForeignBody(BaseModel):
    """A body in another server's format: fields that palate does not know are not read."""

    model_config = ConfigDict(extra="ignore")


class ExactBody(BaseModel):
    """A body in palate's own format: unknown fields are refused."""

    model_config = ConfigDict(extra="forbid")


class Problem(BaseModel):
    """Why a request was refused."""

    detail: str
    """`FIELD: what is wrong with it`, or a sentence."""


def refusal(field: str, problem: str, status: int = 422) -> HTTPException:
    """Return the error that refuses a field.

    >>> refusal("labels[0]", "no row 'x'", 404).detail
    "labels[0]: no row 'x'"
    """
    return HTTPException(status, f"{field}: {problem}")


def numbers(values: Sequence[ItemValues], field: str) -> list[float]:
    """Return one number for each item, for a format that has no place for a reason.

    Raises 422 with the reason for an answer that has none.
    """
    rewards: list[float] = []
    for k, (value,) in enumerate(values):
        if value.value is None:
            raise refusal(field.format(k), f"unscored: {value.reason}")
        rewards.append(value.value)
    return rewards
