"""The server an application runs in: its socket and signals, and the middleware around it."""

from __future__ import annotations

import os
import secrets
import signal
import socket
from collections.abc import Callable, Set
from types import FrameType
from typing import TYPE_CHECKING

import uvicorn
from fastapi import FastAPI, HTTPException
from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from palate.errors import UsageError

if TYPE_CHECKING:
    from prometheus_client import Counter

KEEP_ALIVE = 75
"""Seconds that an idle connection stays open: longer than clients keep theirs."""
OPEN = frozenset({"/healthz", "/readyz"})
"""What needs no token: probes have none."""


class AppServer(uvicorn.Server):
    """A server that tells when it begins to stop."""

    def __init__(
        self, app: FastAPI, sock: socket.socket, stopping: Callable[[], None] = lambda: None
    ) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                log_level="warning",
                access_log=False,
                server_header=False,
                lifespan="on",
                timeout_keep_alive=KEEP_ALIVE,
            )
        )
        self._socket, self._stopping = sock, stopping

    def run_until_told(self, listening: Callable[[str], None] = lambda _: None) -> None:
        """Serve until SIGTERM or SIGINT; `listening` is called with the URL.

        Call it in the main thread, which receives signals.
        """
        # One may come before uvicorn takes signals; and uvicorn raises each again once all is done,
        # by which the default would end the process.
        before = {
            it: signal.signal(it, lambda *_: self.stop()) for it in (signal.SIGTERM, signal.SIGINT)
        }
        try:
            host, port = self._socket.getsockname()[:2]
            listening(f"http://{f'[{host}]' if ':' in host else host}:{port}")
            self.run(sockets=[self._socket])
        finally:
            self._socket.close()
            for number, handler in before.items():
                signal.signal(number, handler)

    def stop(self) -> None:
        """Stop as at a signal."""
        self._stopping()
        self.should_exit = True

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Take no more requests from now on."""
        self._stopping()
        super().handle_exit(sig, frame)


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens there; raise `UsageError` where none can."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        sock = socket.create_server((host, port), family=family, backlog=2048)
    except (OSError, OverflowError) as error:
        problem = getattr(error, "strerror", None) or error
        raise UsageError(f"--host {host} --port {port}: cannot listen there ({problem})") from error
    # Connections inherit it. asyncio sets it where a socket names its protocol, which this one does
    # not: each reply would wait 40 ms for the client to acknowledge the reply's header.
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def read_key(name: str | None) -> str | None:
    """Return the token in an environment variable; None where no variable is named.

    Raises `UsageError` for a variable that is missing, empty, or not ASCII without spaces.
    """
    if name is None:
        return None
    key = os.environ.get(name, "")
    if not key:
        raise UsageError(f"--key-env {name}: the variable is not set, or empty")
    if not key.isascii() or not key.isprintable() or " " in key:
        raise UsageError(f"--key-env {name}: a bearer token is ASCII without spaces")
    return key


def limit_bodies(app: ASGIApp, most: int) -> ASGIApp:
    """Middleware: answer 413 to longer bodies, unread where their length is declared."""
    problem = f"the body is over {most / 2**20:g} MiB; send less in one request"

    async def handle(scope: Scope, receive: Receive, send: Send) -> None:
        taken = 0

        async def limited() -> Message:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            if taken > most:
                raise HTTPException(413, problem)
            return message

        declared = Headers(scope=scope).get("content-length", "") if _is_request(scope) else ""
        if declared.isdecimal() and int(declared) > most:
            await JSONResponse({"detail": problem}, status_code=413)(scope, receive, send)
        else:
            await app(scope, limited if _is_request(scope) else receive, send)

    return handle


def want_token(app: ASGIApp, key: str) -> ASGIApp:
    """Middleware: answer 401 to what carries no token, or a wrong one."""
    expected = f"Bearer {key}".encode()
    refusal = JSONResponse(
        {"detail": "expected `Authorization: Bearer TOKEN` with this server's token"},
        status_code=401,
        headers={"WWW-Authenticate": "Bearer"},
    )

    async def handle(scope: Scope, receive: Receive, send: Send) -> None:
        allowed = not _is_request(scope) or scope["path"] in OPEN
        if not allowed:
            header = Headers(scope=scope).get("authorization", "")
            scheme, _, token = header.partition(" ")
            # The scheme is case-insensitive, the token is not.
            sent = f"{scheme.title()} {token}".encode("latin-1", "replace")
            allowed = secrets.compare_digest(sent, expected)
        await (app if allowed else refusal)(scope, receive, send)

    return handle


def count_requests(app: ASGIApp, requests: Counter, paths: Set[str]) -> ASGIApp:
    """Middleware: count every request by path and status."""

    async def handle(scope: Scope, receive: Receive, send: Send) -> None:
        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                # A path that is none of ours would make a new series for each guess.
                path = scope["path"] if scope["path"] in paths else "other"
                requests.labels(path, str(message["status"])).inc()
            await send(message)

        await app(scope, receive, counted if _is_request(scope) else send)

    return handle


def _is_request(scope: Scope) -> bool:
    return bool(scope["type"] == "http")
