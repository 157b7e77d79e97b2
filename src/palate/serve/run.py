"""A reward server: it listens while the scorer loads, and ends when its queue is done."""

from __future__ import annotations

import logging
from collections.abc import Callable

from palate.rewards import Reward, RewardRequest
from palate.serve.app import ServeSettings, create_app
from palate.serve.app_server import AppServer, listen

WARM_UP_ROWS = 8
"""So many rows are tried until one can be scored."""
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
