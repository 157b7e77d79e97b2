"""The application: every format's routes, what they may answer, health and metrics."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.exceptions import HTTPException as StarletteHTTPException

from palate.rewards import Reward
from palate.serve import choices, openrlhf, score, tei, vllm
from palate.serve.access import BearerToken
from palate.serve.bodies import Problem
from palate.serve.body_limit import BodyLimit
from palate.serve.feedback import FeedbackFile
from palate.serve.metrics import CountRequests, Metrics
from palate.serve.queue import RewardQueue
from palate.serve.service import RewardService, service_of

MAX_BODY = 8 * 2**20
MAX_WAITING = 1024
REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"model": Problem, "description": text}
    for status, text in {
        400: "Not JSON.",
        401: "No token, or a wrong one.",
        404: "No such row or user.",
        413: "The body is over 8 MiB.",
        422: "A field is wrong, or an answer has no score.",
        429: "Too many answers wait.",
        500: "The scorer failed.",
        503: "Loading or stopping.",
    }.items()
}


@dataclass(frozen=True)
class ServeSettings:
    """What a server is told beside its reward."""

    max_waiting: int = MAX_WAITING
    """Answers that may wait for the next batch."""
    key: str | None = None
    """The bearer token that requests must carry."""
    feedback: FeedbackFile | None = None
    ends: tuple[str, ...] = ()
    """What closes a turn, cut off OpenRLHF's queries."""


def create_app(
    load: Callable[[], Reward],
    spec: str,
    settings: ServeSettings | None = None,
    failed: Callable[[], None] = lambda: None,
) -> FastAPI:
    """Return the application; `load` builds the reward in the thread that scores.

    `failed` is called where it cannot be built; `app.state.service.queue.error` says why.
    """
    settings = settings or ServeSettings()
    metrics = Metrics(lambda: queue.waiting)
    queue = RewardQueue(load, settings.max_waiting, metrics.batch, failed)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        queue.start()
        yield
        queue.stop()
        await run_in_threadpool(queue.join)

    app = FastAPI(
        title="palate serve",
        lifespan=lifespan,
        # Their pages load scripts from elsewhere.
        docs_url=None,
        redoc_url=None,
    )
    app.state.service = RewardService(queue, metrics, spec, settings.ends, settings.feedback)
    for module in (score, openrlhf, vllm, tei, choices):
        app.include_router(module.router, responses=REFUSALS)
    app.get("/healthz")(health)
    app.get("/readyz", responses={503: REFUSALS[503]})(readiness)
    app.get("/metrics", response_class=Response)(measured)
    app.exception_handler(RequestValidationError)(_invalid)
    app.exception_handler(StarletteHTTPException)(_refused)
    app.exception_handler(Exception)(_failed)
    app.add_middleware(BodyLimit, most=MAX_BODY)
    if settings.key is not None:
        app.add_middleware(BearerToken, key=settings.key)
    paths = {str(route) for route in app.openapi()["paths"]} | {"/openapi.json"}
    app.add_middleware(CountRequests, metrics=metrics, paths=paths)
    return app


def health() -> dict[str, str]:
    """Tell that the process answers."""
    return {"status": "ok"}


def readiness(request: Request) -> dict[str, str]:
    """Tell whether the scorer is loaded and requests are taken."""
    service_of(request).resolver()  # which there is only then
    return {"status": "ready"}


def measured(request: Request) -> Response:
    """Return the figures that Prometheus reads."""
    return Response(service_of(request).metrics.text(), media_type=CONTENT_TYPE_LATEST)


def _invalid(_: Request, error: Exception) -> JSONResponse:
    # Without the input: it may be a text of a user, or NaN, which JSON does not have.
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        problem = first.get("ctx", {}).get("error", first["msg"])
        return _problem(400, f"the body is not JSON ({problem})")
    field = _named(first["loc"][1:]) or "body"
    more = len(error.errors()) - 1
    return _problem(422, f"{field}: {first['msg']}" + (f" (and {more} more)" if more else ""))


def _refused(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, StarletteHTTPException)
    return _problem(error.status_code, str(error.detail), error.headers)


def _failed(_: Request, error: Exception) -> JSONResponse:
    # Its text may quote a text of a user; the log has it.
    return _problem(500, f"the server failed: {type(error).__name__}")


def _problem(status: int, detail: str, headers: Any = None) -> JSONResponse:
    # A name in a request may hold half a surrogate pair, which UTF-8 does not have.
    plain = detail.encode("utf-8", "replace").decode()
    return JSONResponse({"detail": plain}, status_code=status, headers=headers)


def _named(location: Sequence[str | int]) -> str:
    """Return a field as it is written in code.

    >>> _named(("items", 0, "row"))
    'items[0].row'
    """
    name = ""
    for part in location:
        name += f"[{part}]" if isinstance(part, int) else f".{part}" if name else str(part)
    return name
