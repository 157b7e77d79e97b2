"""One POST, what comes back, and what can go wrong on the way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol


class Answer(NamedTuple):
    """What came back, whatever its status."""

    status: int
    headers: Mapping[str, str]
    """Looked up without regard to case."""
    body: bytes


class WireFailure(Exception):
    """Nothing whole came back; `sent` is False where the server cannot have read the request."""

    def __init__(self, kind: str, *, sent: bool = True) -> None:
        super().__init__(kind)
        self.sent = sent


class Wire(Protocol):
    """Sends requests; opened in the event loop that uses it."""

    async def open(self) -> None:
        """Get ready."""
        ...

    async def post(self, path: str, body: bytes) -> Answer:
        """Send one request; raises `WireFailure`."""
        ...

    async def close(self) -> None:
        """Drop all connections."""
        ...
