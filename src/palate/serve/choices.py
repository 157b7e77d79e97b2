"""POST /feedback: what a user chose, kept for `palate adapt`."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, HTTPException, Request
from pydantic import Field

from palate.errors import DataError
from palate.serve.bodies import ExactBody, Name, NoIds, Text, refusal
from palate.serve.score import EarlierMessage, turns_of
from palate.serve.service import service_of

router = APIRouter()


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
    if service.feedback is None:
        raise HTTPException(404, "this server keeps no feedback (see --feedback)")
    chosen, rejected = body.responses[body.chosen], body.responses[1 - body.chosen]
    try:
        row = service.feedback.append(
            body.user, body.question, chosen, rejected, turns_of(body.turns)
        )
    except DataError as error:
        raise refusal(_FIELDS.get(error.field or "", "responses"), error.problem) from error
    except OSError as error:
        raise HTTPException(500, f"the choice is not kept ({error.strerror or error})") from error
    service.metrics.feedback.inc()
    return FeedbackReply(id=row["id"], date=row["date"])


_FIELDS = {"user_id": "user", "question": "question"}
