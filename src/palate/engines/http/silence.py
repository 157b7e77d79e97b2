"""The time that a server may say nothing."""

from __future__ import annotations

import asyncio
from typing import Any


class Silence:
    """The limit on how long no byte comes, counted anew from each; raises `TimeoutError`.

    A reply may take as long as it likes while bytes come.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds, self.reason = seconds, f"no answer within {seconds:g} s"
        self._limit = asyncio.timeout(seconds)

    async def __aenter__(self) -> Silence:
        """Begin."""
        await self._limit.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        """End."""
        await self._limit.__aexit__(*error)

    def ends(self) -> None:
        """Begin a new silence: bytes came."""
        if not self._limit.expired():
            self.reason = f"the reply stopped for {self.seconds:g} s"
            self._limit.reschedule(asyncio.get_running_loop().time() + self.seconds)
