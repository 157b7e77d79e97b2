"""The time that waiting is measured in."""

from __future__ import annotations

import asyncio
import time


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
