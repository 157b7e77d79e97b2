"""Requests wait in a bounded queue; one thread scores all that waits as its next batch."""

from __future__ import annotations

import asyncio
import logging
import math
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

from palate.rewards import Reward
from palate.serve.batches import REFUSED, Item, ItemValues, Outcome, answers_in, score_together

log = logging.getLogger(__name__)
State = Literal["loading", "ready", "stopping"]
REMEMBERED = 0.7
"""Weight of all earlier batches in the measured rate, against the newest."""


class QueueFull(Exception):
    """More answers wait than may; `retry_after` is in seconds."""

    def __init__(self, waiting: int, limit: int, retry_after: int) -> None:
        super().__init__(f"{waiting} answers wait (limit {limit})")
        self.retry_after = retry_after


class TooManyAnswers(Exception):
    """One request holds more answers than may ever wait."""


class NotReady(Exception):
    """The scorer is loading, or the server is stopping."""


class ClientGone(Exception):
    """Nobody waits for the answer any more."""


@dataclass(eq=False)
class WaitingRequest:
    """What one request asks, and the future that its handler awaits."""

    items: Sequence[Item]
    n: int
    future: asyncio.Future[list[ItemValues]]
    loop: asyncio.AbstractEventLoop


class RewardQueue:
    """A reward, built in its own thread, to which many requests come at once.

    `measured` is told of every batch: answers, seconds and outcomes. `failed` is called, in the
    thread, where the reward cannot be built; `error` then says why.
    """

    def __init__(
        self,
        load: Callable[[], Reward],
        limit: int,
        measured: Callable[[int, float, Sequence[Outcome]], None] = lambda *_: None,
        failed: Callable[[], None] = lambda: None,
    ) -> None:
        self._load, self.limit = load, limit
        self._measured, self._failed = measured, failed
        self._changed = threading.Condition()
        self._waiting: dict[WaitingRequest, None] = {}
        self._computing = 0
        self._answers, self._seconds = 0.0, 0.0
        self._thread = threading.Thread(target=self._run, name="palate-serve", daemon=True)
        self.state: State = "loading"
        self.reward: Reward | None = None
        self.error: BaseException | None = None

    @property
    def waiting(self) -> int:
        """Answers that wait for the next batch."""
        with self._changed:
            return sum(entry.n for entry in self._waiting)

    def start(self) -> None:
        """Build the reward and begin to score, in a thread."""
        self._thread.start()

    def stop(self) -> None:
        """Take no more requests; what waits is still scored."""
        with self._changed:
            self.state = "stopping"
            self._changed.notify()

    def join(self) -> None:
        """Wait until all that waited is scored; what is still loading is not waited for."""
        if self.reward is not None:
            self._thread.join()

    def ready(self) -> Reward:
        """Return the reward; raises `NotReady` while it is loading and once the server stops."""
        if self.state != "ready" or self.reward is None:
            raise NotReady(f"the server is {self.state}")
        return self.reward

    async def ask(
        self, items: Sequence[Item], gone: Callable[[], Awaitable[Any]]
    ) -> list[ItemValues]:
        """Return the rewards of these items; `gone` ends when the client leaves.

        A client that leaves, or a handler that is cancelled, frees its place.

        Raises:
            QueueFull: where too many answers wait; it says when to come back.
            TooManyAnswers: for more of them than may ever wait.
            NotReady: as `ready`.
            ClientGone: where the client leaves first.
            Exception: what scoring raised.
        """
        entry = self._enter(items)
        left = asyncio.ensure_future(gone())
        try:
            await asyncio.wait({entry.future, left}, return_when=asyncio.FIRST_COMPLETED)
            if not entry.future.done():
                raise ClientGone
            return entry.future.result()
        finally:
            left.cancel()
            self._leave(entry)

    def _enter(self, items: Sequence[Item]) -> WaitingRequest:
        loop = asyncio.get_running_loop()
        entry = WaitingRequest(items, answers_in(items), loop.create_future(), loop)
        if entry.n > self.limit:
            raise TooManyAnswers(f"{entry.n} answers in one request (limit {self.limit})")
        with self._changed:
            self.ready()
            waiting = sum(other.n for other in self._waiting)
            if waiting + entry.n > self.limit:
                raise QueueFull(waiting, self.limit, self._retry_after(waiting + entry.n))
            self._waiting[entry] = None
            self._changed.notify()
        return entry

    def _leave(self, entry: WaitingRequest) -> None:
        entry.future.cancel()
        with self._changed:
            self._waiting.pop(entry, None)

    def _retry_after(self, waiting: int) -> int:
        # One second until a batch was measured: nothing is known of the scorer's speed.
        if not self._answers:
            return 1
        return max(1, math.ceil((waiting + self._computing) * self._seconds / self._answers))

    def _run(self) -> None:
        try:
            reward = self._load()
        except BaseException as error:
            self.error = error
            self._failed()
            return
        with self._changed:
            self.reward = reward
            if self.state == "loading":
                self.state = "ready"
        while entries := self._next():
            self._score(reward, entries)

    def _next(self) -> list[WaitingRequest]:
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self.state == "stopping")
            entries = list(self._waiting)
            self._waiting.clear()
            self._computing = sum(entry.n for entry in entries)
        return entries

    def _score(self, reward: Reward, entries: Sequence[WaitingRequest]) -> None:
        started = time.monotonic()
        outcomes: list[Outcome]
        try:
            outcomes = score_together(reward, [entry.items for entry in entries])
        except BaseException as crash:  # such as a panic of a library that is written in Rust
            failure = RuntimeError(type(crash).__name__)
            failure.__cause__ = crash
            outcomes = [failure for _ in entries]
        seconds = time.monotonic() - started
        with self._changed:
            n, self._computing = self._computing, 0
            self._answers = REMEMBERED * self._answers + n
            self._seconds = REMEMBERED * self._seconds + seconds
        try:
            self._measured(n, seconds, outcomes)
        except Exception:  # what is counted must not cost a reply
            log.exception("a batch of %d answers is not counted", n)
        for error in {id(it): it for it in outcomes if isinstance(it, Exception)}.values():
            if type(error) not in REFUSED:  # such as an engine's; the client is told its type
                log.error("a batch of %d answers failed", n, exc_info=error)
        for entry, outcome in zip(entries, outcomes, strict=True):
            with suppress(RuntimeError):  # the loop of a client that left may be closed
                entry.loop.call_soon_threadsafe(_settle, entry.future, outcome)


def _settle(future: asyncio.Future[list[ItemValues]], outcome: Outcome) -> None:
    if future.done():
        return
    if isinstance(outcome, StopIteration):  # which no future takes
        outcome = RuntimeError("StopIteration")
    if isinstance(outcome, Exception):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)
