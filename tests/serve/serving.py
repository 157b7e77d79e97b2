"""What tests of the server share: rows, scorers that can be told, a server on the loopback."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Callable, Sequence
from typing import Any

import uvicorn

import palate
from palate.benchmarks import Dataset
from palate.records import ScorerInfo, Scores
from palate.rewards import Reward
from palate.serve.app import ServeSettings, create_app
from palate.serve.service import RewardService

POSTS = {"ann": "The water of ann.", "bob": "No cats for bob.", "cid": "Has the water?"}


def rows() -> Dataset:
    """Return two rows of each user; the second row's profile holds the first row's question."""
    return Dataset.from_rows("waters", [
        {"id": f"{user}-{k}", "user_id": user, "question": f"Which of {2 * n + k}?",
         "chosen": "Water.", "rejected": "Cats.",
         "profile": [{"id": user, "text": text},
                     *([{"id": "later", "text": f"Which of {2 * n}?\nI asked it."}] if k else [])]}
        for n, (user, text) in enumerate(POSTS.items()) for k in range(2)
    ])  # fmt: skip


class Panic(BaseException):
    """What a library in Rust raises where it gives up."""


class Coded:
    """The question's number times 10,000 and the response's: whoever gets another's reply sees it.

    A response without a number has no score; `broken` and `panic` fail; `gate` lets a batch pass.
    """

    def __init__(self) -> None:
        self.info = ScorerInfo(fingerprint="coded", exact=True)
        self.batches: list[list[tuple[str, ...]]] = []
        self.gate = threading.Event()
        self.entered = threading.Semaphore(0)
        self.gate.set()

    def score(self, slates):
        self.batches.append([slate.candidates for slate in slates])
        self.entered.release()
        assert self.gate.wait(30)
        for k, slate in enumerate(slates):
            if any("broken" in text for text in slate.candidates):
                raise ValueError("of a secret text")
            if any("panic" in text for text in slate.candidates):
                raise Panic("of a secret text")
            yield k, self._scores(slate)

    def _scores(self, slate) -> Scores:
        row = _number(slate.question[-1].content) or 0
        numbers = [_number(text) for text in slate.candidates]
        return Scores(
            values=tuple(None if n is None else float(10_000 * row + n) for n in numbers),
            reasons=tuple("no number" if n is None else None for n in numbers),
        )


class Rendering(Coded):
    """The same, of conversations as they stand too: what it gets is seen."""

    def __init__(self) -> None:
        super().__init__()
        self.rendered: list[str] = []

    def score_rendered(self, texts: Sequence[str]) -> Scores:
        self.rendered += texts
        return Scores(values=tuple(float(len(text)) for text in texts))


def _number(text: str) -> int | None:
    digits = "".join(filter(str.isdecimal, text))
    return int(digits) if digits else None


class Served:
    """A server in a thread for as long as the context is open."""

    def __init__(
        self,
        load: Callable[[], Reward],
        settings: ServeSettings | None = None,
        *,
        wait: bool = True,
    ) -> None:
        self.app = create_app(load, "coded · none", settings)
        config = uvicorn.Config(self.app, port=0, log_level="critical", lifespan="on")
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(target=self.server.run, daemon=True)
        self.wait = wait

    @property
    def service(self) -> RewardService:
        return self.app.state.service

    @property
    def queue(self):
        return self.service.queue

    def __enter__(self) -> Served:
        self.thread.start()
        until(lambda: self.server.started)
        self.port = self.server.servers[0].sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        if self.wait:
            until(lambda: self.queue.state == "ready")
        return self

    def __exit__(self, *_: object) -> None:
        self.server.should_exit = True
        self.thread.join(30)
        assert not self.thread.is_alive()

    def call(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None,
        **more: Any,
    ) -> tuple[int, Any, Any]:  # fmt: skip
        """Return status, document and headers; a body that is not bytes is sent as JSON."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        sent = body if body is None or not isinstance(body, (dict, list)) else json.dumps(body)
        try:
            connection.request(
                method, path, sent, {"Content-Type": "application/json", **(headers or {})}, **more
            )
            reply = connection.getresponse()
            text = reply.read()
        finally:
            connection.close()
        return reply.status, json.loads(text) if text[:1] in b"{[" else text.decode(), reply.headers

    def post(self, path: str, body: Any, **headers: str) -> tuple[int, Any]:
        """Return status and document."""
        status, document, _ = self.call("POST", path, body, headers)
        return status, document


def until(true: Callable[[], Any], seconds: float = 60) -> None:
    """Wait until something holds; fail where it does not in time."""
    pause = threading.Event()
    for _ in range(int(seconds * 100)):
        if true():
            return
        pause.wait(0.01)
    raise AssertionError("it did not come true")


def coded(scorer: Coded, context: str = "none") -> Callable[[], Reward]:
    """Return what loads a reward of a scorer over the rows."""
    return lambda: palate.reward(scorer, context, benchmark=rows())
