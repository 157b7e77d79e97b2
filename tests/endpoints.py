"""What tests of endpoints share: a server on the loopback, a wire that is a function, time."""

from __future__ import annotations

import asyncio
import json
import selectors
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

from palate.engines import (
    Ask,
    ChatEndpoint,
    Clock,
    HttpClient,
    HttpRequest,
    HttpResponse,
    HttpSettings,
    Reply,
    ReplyCache,
    body_of,
)
from palate.records import Message
from palate.session import Session

URL = "http://127.0.0.1:9/v1"
NO_HEADERS: dict[str, str] = {}


class Loopback:
    """Serves `answer(path, body) -> (status, JSON)` for as long as the context is open.

    An iterator in place of the JSON is a stream of events: its pieces are sent as they come.
    Headers may follow: with a `Content-Length` of their own, a reply can be cut short.
    """

    def __init__(
        self, answer: Callable[[str, Any], tuple[Any, ...]], models: list[str] | None = None
    ) -> None:
        self.seen: list[tuple[str, Any]] = []
        self.listed: list[str] = []
        """Paths at which the list of models was asked for."""
        self.headers: list[dict[str, str]] = []
        self.hung_up = 0
        """Streams that the client closed before their end."""
        self.connections: list[Any] = []
        """Those that are open."""
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.seen.append((self.path, body))
                outer.headers.append(dict(self.headers))
                self.reply(*answer(self.path, body))

            def do_GET(self) -> None:
                outer.listed.append(self.path)
                there = models is not None and self.path.endswith("/models")
                names = [{"id": name} for name in models or ()]
                self.reply(200 if there else 404, {"data": names} if there else {})

            def reply(
                self, status: int, said: Any, headers: Mapping[str, str] = NO_HEADERS
            ) -> None:
                self.send_response(status)
                if isinstance(said, Iterator):
                    self.stream(said)
                    return
                text = said if isinstance(said, str | bytes) else json.dumps(said)
                sent = text if isinstance(text, bytes) else text.encode()
                for name, value in {"Content-Length": str(len(sent)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(sent)

            def stream(self, pieces: Iterator[str]) -> None:
                self.send_header("Content-Type", "text/event-stream; charset=utf-8")
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                try:
                    for piece in pieces:
                        self.wfile.write(f"{len(piece.encode()):x}\r\n{piece}\r\n".encode())
                    self.wfile.write(b"0\r\n\r\n")
                except OSError:
                    outer.hung_up += 1
                    self.close_connection = True

            def log_message(self, *args: object) -> None:
                pass

        class Quiet(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 256

            def process_request(self, request: Any, client_address: Any) -> None:
                outer.connections.append(request)
                super().process_request(request, client_address)

            def shutdown_request(self, request: Any) -> None:
                super().shutdown_request(request)
                outer.connections.remove(request)

            def handle_error(self, *args: object) -> None:
                pass

        self.http = Quiet(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}"

    def __enter__(self) -> Loopback:
        threading.Thread(target=self.http.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self.http.shutdown()
        self.http.server_close()

    def settle(self) -> None:
        """Wait until all that clients sent who are gone is read; no client may be there."""
        with suppress(HTTPError):
            urlopen(f"{self.url}/settled")  # behind whom is still to be accepted
        while self.connections:
            time.sleep(0.005)


class FunctionWire:
    """Answers by a coroutine of (path, body); no network."""

    def __init__(self, answer: Callable[[str, bytes], Any]) -> None:
        self.answer, self.opened = answer, 0

    async def open(self) -> None:
        self.opened += 1

    async def post(
        self, path: str, body: bytes, heard: Callable[[], None] = lambda: None
    ) -> HttpResponse:
        answer: HttpResponse = await self.answer(path, body)
        return answer

    async def get(self, path: str) -> HttpResponse:
        return HttpResponse(404, {}, b"")

    async def close(self) -> None:
        pass


class FastClock(Clock):
    """Lets no time pass but what is waited for, and writes that down."""

    def __init__(self) -> None:
        self.time = 0.0
        self.slept: list[float] = []

    def now(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.time += seconds
        await asyncio.sleep(0)


class _NoWait(selectors.DefaultSelector):
    """Turns waiting into a step of the loop's own time."""

    def __init__(self) -> None:
        super().__init__()
        self.time = 0.0

    def select(self, timeout: float | None = None) -> Any:
        if timeout:
            self.time += timeout
        return super().select(0 if timeout is not None else None)


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop in which waiting takes no time but is counted."""

    def __init__(self) -> None:
        self._virtual = _NoWait()
        super().__init__(self._virtual)

    def time(self) -> float:
        return self._virtual.time


def ok(value: object = 1, **usage: int) -> HttpResponse:
    body: dict[str, Any] = {"value": value}
    if usage:
        body["usage"] = usage
    return HttpResponse(200, {}, json.dumps(body).encode())


def post(k: int = 0, tokens_out: int = 0, filler: str = "") -> HttpRequest[Any]:
    return HttpRequest(
        "x", body_of({"k": k, "filler": filler}), lambda said: said["value"], tokens_out
    )


def number(body: bytes) -> int:
    return int(json.loads(body)["k"])


def client(
    transport: Any,
    clock: Clock | None = None,
    ledger: Any = None,
    cache: Path | None = None,
    **settings: Any,
) -> HttpClient:
    chosen = HttpSettings(**{"model": "m", "base_url": URL, **settings})
    replies = None if cache is None else Session(cache=cache).replies
    return HttpClient(chosen, transport=transport, clock=clock, ledger=ledger, replies=replies)


def run_virtually(
    asked: HttpClient, posts: list[HttpRequest[Any]], starts: list[float] | None = None
) -> list[Any]:
    """Ask all posts in one loop with virtual time; returns outcomes in the posts' order."""

    async def one(k: int) -> Any:
        if starts is not None:
            await asyncio.sleep(starts[k])
        return await asked.request(posts[k])

    async def everything() -> list[Any]:
        await asked.open()
        return await asyncio.gather(*[one(k) for k in range(len(posts))])

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(everything())


def ask(text: str = "A?", max_tokens: int = 8, **more: Any) -> Ask:
    return Ask((Message(role="user", content=text),), max_tokens, **more)


def one_reply(endpoint: ChatEndpoint, text: str = "A?", **more: Any) -> Reply:
    ((position, reply),) = endpoint.ask([ask(text, **more)])
    assert position == 0
    return reply


def chat_at(
    there: Loopback, cache: Path | None = None, *, clock: Clock | None = None, ledger: Any = None,
    **settings: Any,
) -> ChatEndpoint:  # fmt: skip
    """Return the chat endpoint at a loopback, tried twice; with a cache it keeps replies."""
    made = HttpSettings(**{"model": "m", "base_url": f"{there.url}/v1", "retries": 1, **settings})
    replies = None if cache is None else ReplyCache(cache)
    return ChatEndpoint(made, replies=replies, clock=clock, ledger=ledger)


class ScriptedChat:
    """A chat endpoint without a network: each reply is a function of its request."""

    client = SimpleNamespace(notes=(), replies=None)

    def __init__(self, answer: Callable[[Ask], Reply]) -> None:
        self.answer = answer
        self.asks: list[Ask] = []

    def ask(self, asks: Sequence[Ask]) -> Iterator[tuple[int, Reply]]:
        """Yield the scripted replies in order."""
        for k, ask in enumerate(asks):
            self.asks.append(ask)
            yield k, self.answer(ask)
