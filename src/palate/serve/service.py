"""The service behind all formats: the queue, and how its refusals become answers."""

from __future__ import annotations

from collections.abc import Sequence

from fastapi import HTTPException, Request

from palate.errors import PalateError, first_line
from palate.serve.batches import REFUSED, Item, ItemValues
from palate.serve.feedback import FeedbackFile
from palate.serve.metrics import Metrics
from palate.serve.queue import ClientGone, NotReady, QueueFull, RewardQueue, TooManyAnswers
from palate.serve.resolving import Resolver

CLIENT_CLOSED = 499
"""Nobody reads it; logs and metrics do."""


class RewardService:
    """A queue, what is counted of it, and a file of feedback."""

    def __init__(
        self,
        queue: RewardQueue,
        metrics: Metrics,
        spec: str,
        ends: tuple[str, ...] = (),
        feedback: FeedbackFile | None = None,
    ) -> None:
        self.queue, self.metrics, self.spec = queue, metrics, spec
        self.ends, self.feedback = ends, feedback

    def resolver(self) -> Resolver:
        """Return rows and users; raises 503 while there is no reward, and once the server stops."""
        try:
            return Resolver(self.queue.ready())
        except NotReady as error:
            raise HTTPException(503, str(error), headers={"Retry-After": "1"}) from error

    async def rewards(self, items: Sequence[Item], request: Request) -> list[ItemValues]:
        """Return the rewards of items, or raise the answer that says why there are none."""
        try:
            return await self.queue.ask(items, request.receive)
        except NotReady as error:
            raise HTTPException(503, str(error), headers={"Retry-After": "1"}) from error
        except QueueFull as error:
            after = {"Retry-After": str(error.retry_after)}
            raise HTTPException(429, str(error), headers=after) from error
        except TooManyAnswers as error:
            raise HTTPException(422, str(error)) from error
        except ClientGone as error:
            raise HTTPException(CLIENT_CLOSED, "the client left") from error
        except Exception as error:
            if type(error) in REFUSED:
                raise HTTPException(422, str(error)) from error
            # What palate raises is written for its users; another error may quote a text or a key.
            problem = first_line(error) if isinstance(error, PalateError) else type(error).__name__
            raise HTTPException(500, f"the scorer failed: {problem}") from error


def service_of(request: Request) -> RewardService:
    """Return the service of the app that answers a request."""
    service = request.app.state.service
    assert isinstance(service, RewardService)
    return service
