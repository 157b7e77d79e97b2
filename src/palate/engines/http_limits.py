"""Limits of requests: how many leave a minute, and how many are under way at once.

The number at once rises by one at a time, and falls by a third where the server is behind. Its
bound is searched for: it is doubled while that makes the server faster.
"""

from __future__ import annotations

import asyncio
import math
import random
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import NamedTuple

SPAN_S = 60.5
"""A minute, and what two requests may lose against each other on their way."""
LONGEST_S = 60.0
"""The longest wait between two attempts where the server names none."""
SLOWER = 0.7
"""What the limit is multiplied by when the server says, or shows, that it is too much."""
START, MOST = 8, 512
GAIN = 1.1
"""Twice as many under way must raise the speed so many times."""
LEAST, ENOUGH = 32, 96
"""Requests that a speed is read off: as many as the level, within these."""
SMALL = 32
"""Up to this level halves are tried too."""
FULL = 0.8
"""The share of the places that must have been taken: else there was too little to ask."""
REST = 16
"""Windows between two tries that gained nothing."""


class Clock:
    """The event loop's own time; tests put a faster one in its place."""

    def now(self) -> float:
        """Return seconds since some fixed moment."""
        return asyncio.get_running_loop().time()

    def wall(self) -> float:
        """Return the seconds of the calendar, which dates in headers are compared with."""
        return time.time()

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)


@dataclass(slots=True)
class Entry:
    """What left at one moment."""

    at: float
    amount: int


class Window:
    """At most `most` within any minute; something larger than that goes when all else is past.

    A leaky bucket would not do: after a rest it lets twice its rate through within a minute.
    """

    def __init__(self, most: float) -> None:
        self.most, self._total = most, 0
        self._entries: deque[Entry] = deque()

    def wait(self, now: float, amount: int) -> float:
        """Return the seconds until so much may leave; 0 for at once."""
        while self._entries and self._entries[0].at <= now - SPAN_S:
            self._total -= self._entries.popleft().amount
        excess = self._total + amount - self.most
        if excess <= 0 or not self._entries:
            return 0.0
        for entry in self._entries:
            excess -= entry.amount
            if excess <= 0:
                break
        return entry.at + SPAN_S - now

    def add(self, now: float, amount: int) -> Entry:
        """Note what leaves now."""
        self._entries.append(Entry(now, amount))
        self._total += amount
        return self._entries[-1]

    def correct(self, entry: Entry, amount: int) -> None:
        """Put what it really was in place of the bound that was noted."""
        if self._entries and entry.at >= self._entries[0].at:
            self._total += amount - entry.amount
            entry.amount = amount


class RateLimit:
    """Lets requests leave one by one, within the limits and never during a rest."""

    def __init__(self, rpm: int | None, tpm: int | None, clock: Clock) -> None:
        self._requests, self.tokens = Window(rpm or math.inf), Window(tpm or math.inf)
        self._clock, self._rest_until = clock, float("-inf")
        self.start()

    def start(self) -> None:
        """Begin in a new event loop; what has left so far still counts."""
        self._turn = asyncio.Lock()

    def rest(self, seconds: float) -> None:
        """Let nothing leave for so long."""
        self._rest_until = max(self._rest_until, self._clock.now() + seconds)

    async def leave(self, tokens: int) -> Entry:
        """Wait for the turn of a request of at most so many tokens."""
        async with self._turn:
            while True:
                now = self._clock.now()
                waits = self._requests.wait(now, 1), self.tokens.wait(now, tokens)
                if (wait := max(self._rest_until - now, *waits)) <= 0:
                    self._requests.add(now, 1)
                    return self.tokens.add(now, tokens)
                await self._clock.sleep(wait)


def retry_after(headers: Mapping[str, str], wall: float) -> float | None:
    """Read `Retry-After`, in seconds or as a date; `wall` is the time now."""
    value = headers.get("Retry-After", "").strip()
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(value).timestamp() - wall
        except (TypeError, ValueError, OverflowError):
            return None
    return None if math.isnan(seconds) else max(0.0, seconds)


def backoff(attempt: int) -> float:
    """Return how long to wait where the server names no time: 0.5 s doubling, with jitter."""
    return min(LONGEST_S, 0.5 * 2.0 ** min(attempt, 16) * random.uniform(0.5, 1.5))


class ConcurrencyLimit:
    """The number under way at once: additive increase, multiplicative decrease, up to `most`.

    First come, first served. A sign of too much that belongs to a request let in before the last
    decrease is the same news again, and lowers nothing.
    """

    def __init__(self, most: int) -> None:
        self.most, self.limit, self.active = most, float(most), 0
        self._entered = self._lowered_at = self._latest_answered = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def enter(self) -> int:
        """Wait for a place; returns the ticket that `too_much` wants."""
        if self._waiting or not self._free():
            place = asyncio.get_running_loop().create_future()
            self._waiting.append(place)
            try:
                await place
            except asyncio.CancelledError:
                if place.done() and not place.cancelled():  # let in and called off at once
                    self.leave()
                else:
                    self._waiting.remove(place)
                raise
        else:
            self.active += 1
        self._entered += 1
        return self._entered

    def leave(self) -> None:
        """Give the place back."""
        self.active -= 1
        self._let_in()

    def hold_at(self, most: int) -> None:
        """Move the most, and the limit with it."""
        self.most, self.limit = most, float(most)
        self._let_in()

    def went_well(self, ticket: int = 0) -> None:
        """Raise the limit by one for every `limit` requests that went well."""
        self._latest_answered = max(self._latest_answered, ticket)
        self.limit = min(float(self.most), self.limit + 1 / self.limit)
        self._let_in()

    def too_much(self, ticket: int) -> None:
        """Lower the limit."""
        if ticket > self._lowered_at:
            self.limit = max(1.0, self.limit * SLOWER)
            self._lowered_at = self._entered

    def timed_out(self, ticket: int) -> None:
        """Lower the limit, unless a later request has its answer: this reply is long, then."""
        if ticket > self._latest_answered:
            self.too_much(ticket)

    def _free(self) -> bool:
        return self.active < int(self.limit)

    def _let_in(self) -> None:
        while self._waiting and self._free():
            place = self._waiting.popleft()
            if not place.done():
                self.active += 1
                place.set_result(None)


def most_at_once() -> int:
    """Return the most connections that are ever open: fewer where files are limited to few."""
    if sys.platform == "win32":
        return MOST
    import resource

    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return MOST if files == resource.RLIM_INFINITY else max(START, min(MOST, files // 2))


class SpeedSearch:
    """Sets a limit to where twice as many under way would gain less than a tenth.

    From `START` on the level is doubled while that pays. A level that is held is measured on and
    on, and after a rest the next one is tried again. Where that gains nothing at a small level,
    halves are tried: a server that works one by one is then asked one by one. While the server
    has the limit lowered nothing is measured; the level is then only where its recovery ends.
    """

    def __init__(self, fixed: int | None, now: Callable[[], float]) -> None:
        self.limit, self._now = ConcurrencyLimit(fixed or START), now
        self._most = fixed or most_at_once()  # a number that is told is never left
        self.level = self._held_level = self.limit.most
        self._held: Speed | None = None
        self._window: SpeedWindow | None = None
        self._under_way = 0
        self._rest, self._skipped = 1, START

    def start(self) -> None:
        """Begin in a new event loop: what was measured in the last one is left."""
        self._window, self._under_way = None, 0

    def leaves(self) -> RequestInFlight:
        """Note a request that leaves."""
        if self.limit.limit < self.level:
            self._window, self._held, self._held_level = None, None, self.level
            self._rest = REST
        elif self._window is None:
            self._window = SpeedWindow(self.level, self._skipped)
        request = RequestInFlight(self._now())
        if self._window is not None:
            self._window.add(request, self._under_way)
        self._under_way += 1
        return request

    def comes_back(self, request: RequestInFlight) -> None:
        """Note that a request ended, however it did."""
        window, now = self._window, self._now()
        if window is not None:
            window.advance(now, self._under_way)
        self._under_way -= 1
        if window is not None and request.window is window:
            window.count(request, now)
            if window.whole:
                self._judge(window.speed())

    def _judge(self, speed: Speed | None) -> None:
        level, held_level = self.level, self._held_level
        if speed is None:
            self._move(held_level)
        elif self._held is None or level == held_level:
            self._held = speed
            self._rest -= 1
            self._move(level if self._rest > 0 else 2 * level)
        elif level > held_level and speed.over(self._held) >= GAIN:
            self._held, self._held_level = speed, level
            self._move(2 * level)
        elif level < held_level and speed.over(self._held) > 1 / GAIN:
            self._held_level = level  # the speed stays what it is compared with
            self._move(level // 2)
        else:
            half = level > held_level and held_level <= SMALL
            self._move(held_level // 2 if half else held_level)

    def _move(self, level: int) -> None:
        level = max(1, min(level, self._most))
        self._rest = REST if level > self.level else self._rest
        self._skipped = abs(level - self.level)  # while the queue fills or empties
        self.level, self._window = level, None
        if self.limit.most != level:
            self.limit.hold_at(level)


class SpeedWindow:
    """The first requests that leave under one level, and how fast they come back.

    Speed = mean number under way · work / seconds on the way (Little's law). Unlike work over the
    time of the window it does not depend on where among replies that come in waves it ends.
    """

    def __init__(self, level: int, skipped: int) -> None:
        self.level, self._to_skip = level, skipped
        self._wanted = self._to_leave = max(LEAST, min(level, ENOUGH))
        self._back: list[RequestInFlight] = []
        self._ended = 0
        self._began: float | None = None
        self._now = self._area = 0.0

    def add(self, request: RequestInFlight, under_way: int) -> None:
        """Note a request that leaves."""
        self.advance(request.left_at, under_way)
        if self._to_skip:
            self._to_skip -= 1
            return
        self._began = request.left_at if self._began is None else self._began
        request.window, request.counts = self, self._to_leave > 0
        self._to_leave -= 1

    def advance(self, now: float, under_way: int) -> None:
        """Note how many were under way until now."""
        if self._began is not None:
            self._area += under_way * (now - self._now)
        self._now = now

    def count(self, request: RequestInFlight, now: float) -> None:
        """Note that one of its requests came back."""
        self._ended += 1
        if request.counts:
            request.seconds = now - request.left_at
            self._back.append(request)

    @property
    def whole(self) -> bool:
        """Whether the wanted requests are back, or twice as many others while some hang."""
        return len(self._back) == self._wanted or self._ended >= 2 * self._wanted

    def speed(self) -> Speed | None:
        """Return the speed; None where there was too little to ask, or no time passed."""
        busy = sum(request.seconds for request in self._back)
        time = self._now - (self._now if self._began is None else self._began)
        if busy <= 0 or time <= 0 or self._area < FULL * self.level * time:
            return None
        share = self._area / time / busy
        tokens = [request.tokens for request in self._back if request.replies]
        counts = [count for count in tokens if count is not None]
        whole = len(counts) == len(tokens)
        return Speed(share * len(tokens), share * sum(counts) if whole else None)


@dataclass(slots=True, eq=False)
class RequestInFlight:
    """One request on its way: since when, and what came of it."""

    left_at: float
    window: SpeedWindow | None = None
    counts: bool = False
    """Whether its window's speed is read off it."""
    seconds: float = 0.0
    replies: int = 0
    tokens: int | None = None

    def answered(self, used: tuple[int, int] | None) -> None:
        """Note a reply, and the tokens it says: written, or read where it writes none."""
        self.replies = 1
        self.tokens = None if used is None else used[1] or used[0]


class Speed(NamedTuple):
    """Work per second."""

    replies: float
    tokens: float | None
    """None where some reply did not say its tokens."""

    def over(self, other: Speed) -> float:
        """Return how many times faster this is, in tokens where both are known."""
        if self.tokens is not None and other.tokens:
            return self.tokens / other.tokens
        if other.replies:
            return self.replies / other.replies
        return math.inf if self.replies else 1.0
