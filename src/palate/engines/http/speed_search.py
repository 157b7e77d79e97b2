"""The number of requests at once that a server is worth: doubled while that pays, then held."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import NamedTuple

from palate.engines.http.concurrency import ConcurrencyLimit

START, MOST = 8, 512
GAIN = 1.1
"""Twice as many under way must raise the speed so many times."""
UNCLEAR = 0.75, 1.5
"""Between these a ratio of speeds may be chance, or of a queue that still fills."""
LEAST, LONGER = 16, 48
"""Requests that a speed is read off, at least; and where the first look is not clear."""
SMALL = 32
"""Up to this level halves are tried too."""
FULL = 0.8
"""The share of the places that must have been taken: else there was too little to ask."""
REST, LONGEST_REST = 8, 64
"""Samples between two tries that gained nothing; doubled each time."""


def most_at_once() -> int:
    """Return the most connections that are ever open: fewer where files are limited to few."""
    if sys.platform == "win32":
        return MOST
    import resource

    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return MOST if files == resource.RLIM_INFINITY else max(START, min(MOST, files // 2))


class Trip:
    """One request on its way: since when, what came of it, and the sample it belongs to."""

    __slots__ = ("left_at", "replies", "sample", "seconds", "tokens")

    def __init__(self, left_at: float, sample: SpeedSample | None) -> None:
        self.left_at, self.sample = left_at, sample
        self.seconds: float | None = None
        self.replies = 0
        self.tokens: int | None = None

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

    def mean(self, other: Speed | None) -> Speed:
        """Return the mean of two measurements of the same."""
        if other is None:
            return self
        replies = (self.replies + other.replies) / 2
        if self.tokens is None or other.tokens is None:
            return Speed(replies, None)
        return Speed(replies, (self.tokens + other.tokens) / 2)


class SpeedSample:
    """The first requests that leave under one level, and how fast they come back.

    Speed = mean number under way · work / seconds on the way (Little's law). Unlike work over the
    time of the sample it does not depend on where among replies that come in waves a sample ends.
    """

    def __init__(self, level: int, skipped: int = 0) -> None:
        self.level, self._skipped = level, skipped
        self.wanted = skipped + max(LEAST, level)
        self.longer = False
        self._counted_from = skipped
        self._trips: list[Trip] = []
        self._first_open = self._ended = 0
        self._began = self._now = 0.0
        self._area = 0.0

    def advance(self, now: float, under_way: int) -> None:
        """Note how many were under way until now."""
        if len(self._trips) > self._skipped:
            self._area += under_way * (now - self._now)
        self._now = now

    def add(self, trip: Trip) -> None:
        """Note a request that leaves."""
        self._trips.append(trip)
        if len(self._trips) == self._skipped + 1:
            self._began = trip.left_at

    def ended(self) -> None:
        """Note that one of its requests came back."""
        self._ended += 1

    def extend(self) -> None:
        """Measure longer, and leave out what was measured while queues filled or emptied."""
        self._counted_from = self.wanted
        self.wanted, self.longer = self.wanted + max(LONGER, self.level), True

    @property
    def whole(self) -> bool:
        """Whether the wanted requests are back, or twice as many others while some hang."""
        while self._first_open < len(self._trips) and (
            self._trips[self._first_open].seconds is not None
        ):
            self._first_open += 1
        return self._first_open >= self.wanted or self._ended >= 2 * self.wanted

    def speed(self) -> Speed | None:
        """Return the speed; None where there was too little to ask, or no time passed."""
        back = [
            trip
            for trip in self._trips[self._counted_from : self.wanted]
            if trip.seconds is not None
        ]
        busy = sum(trip.seconds or 0.0 for trip in back)
        time = self._now - self._began
        if busy <= 0 or time <= 0 or self._area < FULL * self.level * time:
            return None
        share = self._area / time / busy
        answered = [trip.tokens for trip in back if trip.replies]
        told = [tokens for tokens in answered if tokens is not None]
        return Speed(
            share * len(answered), share * sum(told) if len(told) == len(answered) else None
        )


class SpeedSearch:
    """Sets a limit to where twice as many under way would gain less than a tenth.

    From `START` on the level is doubled while that pays. A level that is held is measured on and
    on, and after a rest the next one is tried again. Where that gains nothing at a small level,
    halves are tried: a server that works one by one is then asked one by one. While the server
    has the limit lowered nothing is measured; the level is then only where its recovery ends.
    """

    def __init__(
        self, limit: ConcurrencyLimit, now: Callable[[], float], *, most: int, fixed: bool
    ) -> None:
        self._limit, self._now, self._most, self._fixed = limit, now, most, fixed
        self.level = self._held_level = limit.most
        self._held: Speed | None = None
        self._sample: SpeedSample | None = None
        self._under_way = 0
        self._rest, self._next_rest = 1, REST
        self._skipped = START

    def start(self) -> None:
        """Begin in a new event loop: what was measured in the last one is left."""
        self._sample, self._under_way = None, 0

    def leaves(self) -> Trip:
        """Note a request that leaves."""
        now = self._now()
        if self._fixed:
            return Trip(now, None)
        if self._limit.limit < self.level:
            self._sample, self._held, self._held_level = None, None, self.level
            self._rest = self._next_rest
        elif self._sample is None:
            self._sample = SpeedSample(self.level, self._skipped)
        trip = Trip(now, self._sample)
        if self._sample is not None:
            self._sample.advance(now, self._under_way)
            self._sample.add(trip)
        self._under_way += 1
        return trip

    def comes_back(self, trip: Trip) -> None:
        """Note that a request ended, however it did."""
        now = self._now()
        trip.seconds = now - trip.left_at
        if self._fixed:
            return
        sample = self._sample
        if sample is not None:
            sample.advance(now, self._under_way)
        self._under_way -= 1
        if sample is not None and trip.sample is sample:
            sample.ended()
            if sample.whole:
                self._judge(sample)

    def _judge(self, sample: SpeedSample) -> None:
        speed = sample.speed()
        if speed is None:
            self._move(self._held_level)
        elif self.level == self._held_level or self._held is None:
            self._held = speed.mean(self._held)
            self._rest -= 1
            if self._rest <= 0:
                self._try_next()
            else:
                self._sample, self._skipped = None, 0
        else:
            self._compare(speed, speed.over(self._held), sample)

    def _compare(self, speed: Speed, gain: float, sample: SpeedSample) -> None:
        if UNCLEAR[0] < gain < UNCLEAR[1] and not sample.longer:
            sample.extend()
        elif self.level > self._held_level:
            if gain >= GAIN:
                self._held, self._held_level, self._next_rest = speed, self.level, REST
                self._try_next()
            else:
                self._move(self._held_level)
                if self._held_level <= SMALL:
                    self._try_half()
        elif gain > 1 / GAIN:
            self._held_level = self.level  # the speed stays what it is compared with
            self._try_half()
        else:
            self._move(self._held_level)

    def _try_next(self) -> None:
        self._rest, self._next_rest = self._next_rest, min(2 * self._next_rest, LONGEST_REST)
        self._move(min(2 * self.level, self._most))

    def _try_half(self) -> None:
        if self.level > 1:
            self._move(self.level // 2, skipped=self.level)
        else:
            self._sample = None

    def _move(self, level: int, skipped: int = 0) -> None:
        self.level, self._sample, self._skipped = level, None, skipped
        if self._limit.most != level:
            self._limit.hold_at(level)
