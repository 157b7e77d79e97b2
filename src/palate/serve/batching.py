"""Requests wait in a bounded queue; one thread scores all that waits as its next batch."""

from __future__ import annotations

import asyncio
import logging
import math
import threading
import time
from collections.abc import Awaitable, Callable, Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from fastapi import HTTPException

from palate.errors import DataError, UsageError
from palate.records import Slate
from palate.rewards import Reward, RewardRequest, RewardValue

CLIENT_CLOSED = 499
"""Nobody reads it; logs and metrics do."""
REMEMBERED = 0.7
"""Weight of all earlier batches in the measured rate, against the newest."""
REFUSED = (UsageError, DataError)
"""What says that a request is wrong; their other kinds say that the engine failed."""
log = logging.getLogger(__name__)


class RenderedText(NamedTuple):
    """A conversation closed by its response, as a chat template wrote it; scored as it stands."""

    text: str


Item = RewardRequest | Slate | RenderedText
"""Answers to a question of a user, or a conversation that is scored as it stands."""
ItemValues = tuple[RewardValue, ...]
Outcome = list[ItemValues] | Exception
"""The rewards of each item of an entry, or why the entry has none."""


@dataclass(eq=False)
class WaitingRequest:
    """What one request asks, and the future that its handler awaits."""

    items: Sequence[Item]
    n: int
    future: asyncio.Future[list[ItemValues]]


class RewardQueue:
    """A reward, built in its own thread, to which many requests come at once.

    `measured` is told of every batch: answers, seconds and outcomes. `failed` is called, in the
    thread, where the reward cannot be built; `error` then says why.
    """

    def __init__(
        self,
        load: Callable[[], Reward],
        limit: int,
        measured: Callable[[int, float, Sequence[Outcome]], None],
        failed: Callable[[], None],
    ) -> None:
        self._load, self.limit = load, limit
        self._measured, self._failed = measured, failed
        self._changed = threading.Condition()
        self._waiting: dict[WaitingRequest, None] = {}
        self._computing, self._answers, self._seconds = 0, 0.0, 0.0
        self._thread = threading.Thread(target=self._run, name="palate-serve", daemon=True)
        self.state: Literal["loading", "ready", "stopping"] = "loading"
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
        """Return the reward; raises 503 while it is loading and once the server stops."""
        if self.state != "ready" or self.reward is None:
            raise HTTPException(503, f"the server is {self.state}", headers={"Retry-After": "1"})
        return self.reward

    async def ask(
        self, items: Sequence[Item], gone: Callable[[], Awaitable[Any]]
    ) -> list[ItemValues]:
        """Return the rewards of these items; `gone` ends when the client leaves.

        A client that leaves, or a handler that is cancelled, frees its place.

        Raises:
            HTTPException: 503 as `ready`; 429 where too many answers wait, with the seconds until
                they are scored; 422 for more of them than may ever wait; 499 where the client
                leaves first.
            Exception: what scoring raised.
        """
        loop = asyncio.get_running_loop()
        entry = WaitingRequest(items, answers_in(items), loop.create_future())
        self._enter(entry)
        left = asyncio.ensure_future(gone())
        try:
            await asyncio.wait({entry.future, left}, return_when=asyncio.FIRST_COMPLETED)
            if not entry.future.done():
                raise HTTPException(CLIENT_CLOSED, "the client left")
            return entry.future.result()
        finally:
            left.cancel()
            entry.future.cancel()
            with self._changed:
                self._waiting.pop(entry, None)

    def _enter(self, entry: WaitingRequest) -> None:
        if entry.n > self.limit:
            raise HTTPException(422, f"{entry.n} answers in one request (limit {self.limit})")
        with self._changed:
            self.ready()
            waiting = self.waiting
            if waiting + entry.n > self.limit:
                after = {"Retry-After": str(self._retry_after(waiting + entry.n))}
                raise HTTPException(429, f"{waiting} answers wait (limit {self.limit})", after)
            self._waiting[entry] = None
            self._changed.notify()

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
        errors = [outcome for outcome in outcomes if isinstance(outcome, Exception)]
        for error in {id(error): error for error in errors}.values():
            if type(error) not in REFUSED:  # such as an engine's; the client is told its type
                log.error("a batch of %d answers failed", n, exc_info=error)
        for entry, outcome in zip(entries, outcomes, strict=True):
            with suppress(RuntimeError):  # the loop of a client that left may be closed
                loop = entry.future.get_loop()
                loop.call_soon_threadsafe(_settle, entry.future, outcome)


def _settle(future: asyncio.Future[list[ItemValues]], outcome: Outcome) -> None:
    if future.done():
        return
    if isinstance(outcome, StopIteration):  # which no future takes
        outcome = RuntimeError("StopIteration")
    if isinstance(outcome, Exception):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)


def answers_in(items: Sequence[Item]) -> int:
    """Return how many answers are to be scored.

    >>> answers_in([RewardRequest(row="1", responses=("Tea.", "Coffee.")), RenderedText("Tea.")])
    3
    """
    return sum(len(_answers(item)) for item in items)


def score_together(reward: Reward, entries: Sequence[Sequence[Item]]) -> list[Outcome]:
    """Return the outcome of each entry; all entries share batches.

    An entry that palate refuses fails alone: entries are halved until it stands by itself. That
    costs little, since what is refused is refused before anything is computed. Any other error is
    the outcome of all.
    """
    try:
        return list(_scored(reward, entries))
    except Exception as error:
        if type(error) not in REFUSED or len(entries) == 1:
            return [error for _ in entries]
    middle = len(entries) // 2
    return score_together(reward, entries[:middle]) + score_together(reward, entries[middle:])


def _scored(reward: Reward, entries: Sequence[Sequence[Item]]) -> list[list[ItemValues]]:
    # Trainers send one answer at a time: those to one prompt are read as one slate.
    merged: dict[Hashable, tuple[Item, dict[str, None]]] = {}
    for item in (item for items in entries for item in items):
        merged.setdefault(_key(item), (item, {}))[1].update(dict.fromkeys(_answers(item)))
    wide = {key: _with(item, tuple(answers)) for key, (item, answers) in merged.items()}
    values = {
        **_values(reward.values, wide, RewardRequest),
        **_values(reward.as_it_stands, wide, Slate),
        **_values(lambda items: reward.rendered([it.text for it in items]), wide, RenderedText),
    }
    by_answer = {
        key: dict(zip(_answers(item), values[key], strict=True)) for key, item in wide.items()
    }
    return [
        [tuple(by_answer[_key(item)][answer] for answer in _answers(item)) for item in items]
        for items in entries
    ]


def _values(score: Any, wide: dict[Hashable, Item], kind: type) -> dict[Hashable, ItemValues]:
    chosen = {key: item for key, item in wide.items() if isinstance(item, kind)}
    return dict(zip(chosen, score(list(chosen.values())), strict=True)) if chosen else {}


def _answers(item: Item) -> tuple[str, ...]:
    match item:
        case RewardRequest():
            return item.responses
        case Slate():
            return item.candidates
    return (item.text,)


def _key(item: Item) -> Hashable:
    match item:
        case RewardRequest(user=None):
            return "row", item.row
        case RewardRequest(user=user):
            assert user is not None
            return "user", item.question, item.turns, user.model_dump_json()
        case Slate():
            return "slate", item.prompt_key
    return "text", item.text


def _with(item: Item, answers: tuple[str, ...]) -> Item:
    match item:
        case RewardRequest():
            return item.model_copy(update={"responses": answers})
        case Slate():
            return item.replace(candidates=answers)
    return item
