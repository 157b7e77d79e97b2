"""The application: routes, what they may answer, health and metrics; and the server it runs in."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.exceptions import HTTPException as StarletteHTTPException

from palate.rewards import Reward, RewardRequest
from palate.serve import formats, score
from palate.serve.batching import RewardQueue
from palate.serve.server import AppServer, count_requests, limit_bodies, listen, want_token
from palate.serve.service import Metrics, Problem, RewardService, ServeSettings, service_of

MAX_BODY = 8 * 2**20
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
WARM_UP_ROWS = 8
"""So many rows are tried until one can be scored."""
log = logging.getLogger(__name__)


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
    app.state.service = RewardService(queue, metrics, spec, settings)
    for module in (score, formats):
        app.include_router(module.router, responses=REFUSALS)
    app.get("/healthz")(health)
    app.get("/readyz", responses={503: REFUSALS[503]})(readiness)
    app.get("/metrics", response_class=Response)(measured)
    app.exception_handler(RequestValidationError)(_invalid)
    app.exception_handler(StarletteHTTPException)(_refused)
    app.exception_handler(Exception)(_failed)
    app.add_middleware(limit_bodies, most=MAX_BODY)
    if settings.key is not None:
        app.add_middleware(want_token, key=settings.key)
    paths = {str(route) for route in app.openapi()["paths"]} | {"/openapi.json"}
    app.add_middleware(count_requests, requests=metrics.requests, paths=paths)
    return app


def health() -> dict[str, str]:
    """Tell that the process answers."""
    return {"status": "ok"}


def readiness(request: Request) -> dict[str, str]:
    """Tell whether the scorer is loaded and requests are taken."""
    service_of(request).queue.ready()
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


def run_server(
    load: Callable[[], Reward],
    spec: str,
    settings: ServeSettings | None = None,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    listening: Callable[[str], None] = lambda _: None,
) -> None:
    """Serve a reward until SIGTERM or SIGINT, then finish what waits.

    `load` builds the reward; one answer is scored before the server is ready, so that weights are
    loaded. `listening` is called with the URL. Port 0 takes a free one. Call it in the main thread,
    which receives signals.

    Raises `UsageError` for an address that cannot be had, and what `load` and the first answer
    raise.
    """
    sock = listen(host, port)

    def failed() -> None:
        server.stop()  # made below, before anything is loaded

    app = create_app(lambda: warmed(load()), spec, settings, failed)
    queue = app.state.service.queue
    server = AppServer(app, sock, stopping=queue.stop)
    server.run_until_told(listening)
    if queue.error is not None:
        raise queue.error


def warmed(reward: Reward) -> Reward:
    """Return the reward once it has scored an answer to a row, so that weights are loaded."""
    users = len(reward.users)  # they are gathered before anybody waits for it
    rows = reward.data.rows[:WARM_UP_ROWS] if reward.data is not None else ()
    for row in rows:
        ((value,),) = reward.values([RewardRequest(row=row.id, responses=("Hello.",))])
        if value.value is not None:
            break
    log.info("ready; the data has %d users", users)
    return reward
