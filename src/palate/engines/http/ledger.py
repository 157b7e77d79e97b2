"""What asking has cost, and the cap on it."""

from __future__ import annotations

import math
import threading
import weakref
from fractions import Fraction

from palate.records import Settings

PICO = 10**12
"""Sums are kept as whole picodollars, so that no rounding passes a cap."""


class Prices:
    """What a token costs; None where the endpoint has no price."""

    def __init__(self, price_in: float | None, price_out: float | None) -> None:
        self.known = price_in is not None or price_out is not None
        # USD per million tokens are micro-USD per token; rounded up, as a cap wants it.
        self._each = [
            math.ceil(Fraction(str(price or 0)) * PICO / 10**6) for price in (price_in, price_out)
        ]

    def of(self, tokens_in: int, tokens_out: int) -> int:
        """Return picodollars."""
        return tokens_in * self._each[0] + tokens_out * self._each[1]


class Ledger:
    """Sums over all endpoints of one command.

    Each request first reserves the most it can cost; so what was spent never passes the cap.
    """

    def __init__(self, max_cost: float | None = None) -> None:
        self.max_cost = max_cost
        self.asked = self.cached = 0
        self._cap = None if max_cost is None else math.floor(Fraction(str(max_cost)) * PICO)
        self._spent = self._reserved = 0
        self._closed = False
        self._lock = threading.Lock()

    @property
    def spent(self) -> float:
        """USD."""
        return self._spent / PICO

    @property
    def closed(self) -> bool:
        """True once the cap has stopped a request: nothing further is sent."""
        return self._closed

    def reserve(self, most: int) -> bool:
        """Set aside the most that one request can cost; False where the cap would be passed."""
        with self._lock:
            if self._closed:
                return False
            if self._cap is not None and self._spent + self._reserved + most > self._cap:
                return False
            self._reserved += most
            self.asked += 1
            return True

    def settle(self, most: int, cost: int) -> None:
        """Put what it did cost in place of what was reserved."""
        with self._lock:
            self._reserved -= most
            self._spent += cost

    def close(self) -> None:
        """Send nothing further."""
        self._closed = True

    def line(self) -> str:
        """Return what was asked and spent, in a few words; "" before anything was asked."""
        if not (self.asked or self.cached):
            return ""
        parts = [f"{self.asked:,} requests"]
        if self.cached:
            parts.append(f"{self.cached:,} from the cache")
        if self._spent:
            parts.append(f"${self.spent:,.4f}")
        return ", ".join(parts)


_ledgers: dict[int, Ledger] = {}


def ledger_of(settings: Settings) -> Ledger:
    """Return the one ledger of everything that runs with this settings object."""
    key = id(settings)
    if key not in _ledgers:
        _ledgers[key] = Ledger(settings.max_cost)
        weakref.finalize(settings, _ledgers.pop, key, None)
    return _ledgers[key]
