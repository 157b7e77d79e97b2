"""One POST: what is sent, what comes back, and what that means."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple, Protocol

RETRIED = {408, 409, 425, 429, 500, 502, 503, 504}
TOO_MUCH = {429, 503}
LONGEST_S = 60.0


class HttpResponse(NamedTuple):
    """What came back, whatever its status."""

    status: int
    headers: Mapping[str, str]
    """Looked up without regard to case."""
    body: bytes


class TransportFailure(Exception):
    """Nothing whole came back; `sent` is False where the server cannot have read the request."""

    def __init__(self, kind: str, *, sent: bool = True) -> None:
        super().__init__(kind)
        self.sent = sent


class Transport(Protocol):
    """Sends requests; opened in the event loop that uses it."""

    async def open(self) -> None:
        """Get ready."""

    async def post(self, path: str, body: bytes, heard: Callable[[], None]) -> HttpResponse:
        """Send one request, and call `heard` whenever bytes come; raises `TransportFailure`.

        Whatever ends the call early closes the connection, so that the server stops its work.
        """

    async def get(self, path: str) -> HttpResponse:
        """Ask for what lies at a path; raises `TransportFailure`."""

    async def close(self) -> None:
        """Drop all connections."""


def body_of(value: object) -> bytes:
    """Return a request's JSON."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:  # half of a surrogate pair
        return json.dumps(value, separators=(",", ":")).encode()


def usage(reply: Any) -> tuple[int, int] | None:
    """Return the tokens read and written, as OpenAI's API gives them."""
    try:
        used = reply["usage"]
        tokens = int(used["prompt_tokens"]), int(used.get("completion_tokens") or 0)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError):
        return None
    return tokens if min(tokens) >= 0 else None


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
