"""Which answers are worth asking again for, and when."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

RETRIED = {408, 409, 425, 429, 500, 502, 503, 504}
TOO_MUCH = {429, 503}
REFUSED = {401: "the key was refused", 403: "access was refused", 404: "no such path or model"}
LONGEST_S = 60.0


def pause(attempt: int) -> float:
    """Return how long to wait where the server names no time: 0.5 s doubling, with jitter."""
    return min(LONGEST_S, 0.5 * 2.0 ** min(attempt, 16) * random.uniform(0.5, 1.5))


def retry_after(headers: Mapping[str, str], wall: float) -> float | None:
    """Read `Retry-After`, in seconds or as a date; `wall` is the time now."""
    value = headers.get("Retry-After", "").strip()
    if not value:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(value).timestamp() - wall
        except (TypeError, ValueError, OverflowError):
            return None
    return None if math.isnan(seconds) else max(0.0, seconds)
