"""An application on a socket, until it is told to end."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable
from types import FrameType

import uvicorn
from fastapi import FastAPI

from palate.errors import UsageError

KEEP_ALIVE = 75
"""Seconds that an idle connection stays open: longer than clients keep theirs."""


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
