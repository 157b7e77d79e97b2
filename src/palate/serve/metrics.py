"""Metrics for Prometheus: requests, answers, batches, and what waits."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from palate.serve.batches import Outcome

SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


class Metrics:
    """The counters of one server, in a registry of their own."""

    def __init__(self, waiting: Callable[[], float]) -> None:
        registry = self.registry = CollectorRegistry()
        self.requests = Counter(
            "palate_requests", "Requests by path and status.", ["path", "status"], registry=registry
        )
        self.answers = Counter(
            "palate_answers", "Answers by what came of them.", ["outcome"], registry=registry
        )
        self.feedback = Counter("palate_feedback", "Rows of feedback on disk.", registry=registry)
        self.sizes = Histogram(
            "palate_batch_answers", "Answers in a batch.", buckets=SIZES, registry=registry
        )
        self.seconds = Histogram(
            "palate_batch_seconds", "Seconds that a batch took.", registry=registry
        )
        gauge = Gauge("palate_waiting_answers", "Answers that wait.", registry=registry)
        gauge.set_function(waiting)

    def batch(self, n: int, seconds: float, outcomes: Sequence[Outcome]) -> None:
        """Count one batch."""
        self.sizes.observe(n)
        self.seconds.observe(seconds)
        done = [outcome for outcome in outcomes if not isinstance(outcome, Exception)]
        values = [each for items in done for of_item in items for each in of_item]
        scored = sum(each.value is not None for each in values)
        self.answers.labels("scored").inc(scored)
        self.answers.labels("unscored").inc(len(values) - scored)
        self.answers.labels("failed").inc(n - len(values))

    def text(self) -> bytes:
        """Return all of it in Prometheus' text format."""
        return generate_latest(self.registry)


class CountRequests:
    """Middleware: counts every request by path and status."""

    def __init__(self, app: ASGIApp, metrics: Metrics, paths: Set[str]) -> None:
        self.app, self.metrics, self.paths = app, metrics, paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on and count its answer."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                # A path that is none of ours would make a new series for each guess.
                path = scope["path"] if scope["path"] in self.paths else "other"
                self.metrics.requests.labels(path, str(message["status"])).inc()
            await send(message)

        await self.app(scope, receive, counted)
