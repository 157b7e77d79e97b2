"""Limits of requests and tokens a minute, and the rests that a server asks for."""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from dataclasses import dataclass

SPAN_S = 60.5
"""A minute, and what two requests may lose against each other on their way."""


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
        self._requests, self._tokens = Window(rpm or math.inf), Window(tpm or math.inf)
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
            while (wait := self._wait(tokens)) > 0:
                await self._clock.sleep(wait)
            now = self._clock.now()
            self._requests.add(now, 1)
            return self._tokens.add(now, tokens)

    def correct(self, entry: Entry, tokens: int) -> None:
        """Count what the reply says it was."""
        self._tokens.correct(entry, tokens)

    def _wait(self, tokens: int) -> float:
        now = self._clock.now()
        waits = self._requests.wait(now, 1), self._tokens.wait(now, tokens)
        return max(self._rest_until - now, *waits)
