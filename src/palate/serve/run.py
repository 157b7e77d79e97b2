"""A server on a socket: it listens while the scorer loads, and ends when its queue is done."""

from __future__ import annotations

import logging
import signal
import socket
from collections.abc import Callable
from types import FrameType

import uvicorn

from palate.errors import UsageError
from palate.rewards import Reward, RewardRequest
from palate.serve.app import ServeSettings, create_app

WARM_UP_ROWS = 8
"""So many rows are tried until one can be scored."""
KEEP_ALIVE = 75
"""Seconds that an idle connection stays open: longer than clients keep theirs."""
log = logging.getLogger(__name__)


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
    with listen(host, port) as sock:

        def failed() -> None:
            server.stop()  # made below, before anything is loaded

        app = create_app(lambda: warmed(load()), spec, settings, failed)
        queue = app.state.service.queue
        config = uvicorn.Config(
            app, log_level="warning", access_log=False, lifespan="on", timeout_keep_alive=KEEP_ALIVE
        )
        server = _Server(config, queue.stop)
        # One may come before uvicorn takes signals; and uvicorn raises each again once all is done,
        # by which the default would end the process.
        before = {
            it: signal.signal(it, lambda *_: server.stop())
            for it in (signal.SIGTERM, signal.SIGINT)
        }
        try:
            shown = f"[{host}]" if ":" in host else host
            listening(f"http://{shown}:{sock.getsockname()[1]}")
            server.run(sockets=[sock])
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
    if queue.error is not None:
        raise queue.error


class _Server(uvicorn.Server):
    """A server that tells when it begins to stop."""

    def __init__(self, config: uvicorn.Config, stopping: Callable[[], None]) -> None:
        super().__init__(config)
        self._stopping = stopping

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
