"""The number of requests under way at once, learned from how the server takes them."""

from __future__ import annotations

import asyncio
from collections import deque

SLOWER = 0.7
"""What the limit is multiplied by when the server says, or shows, that it is too much."""


class ConcurrencyLimit:
    """Additive increase, multiplicative decrease, between 1 and `most`; first come, first served.

    A sign of too much that belongs to a request let in before the last decrease is the same
    news again, and lowers nothing.
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
        """Lower the limit, unless a request that was let in later has its answer.

        A reply that others overtake is long; where none does, the server is behind with all.
        """
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
