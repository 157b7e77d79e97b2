"""What asking has cost, and the cap on it; in `Decimal`, so that no rounding passes the cap."""

from __future__ import annotations

import threading
from decimal import Decimal


class Prices:
    """What a token costs; None where the endpoint has no price."""

    def __init__(self, price_in: float | None, price_out: float | None) -> None:
        self.known = price_in is not None or price_out is not None
        self._each = [Decimal(str(price or 0)) / 10**6 for price in (price_in, price_out)]

    def of(self, tokens_in: int, tokens_out: int) -> Decimal:
        """Return USD."""
        return tokens_in * self._each[0] + tokens_out * self._each[1]


class Ledger:
    """Sums over all endpoints of one session.

    Each request first reserves the most it can cost; so what was spent never passes the cap.
    """

    def __init__(self, max_cost: float | None = None) -> None:
        self.max_cost = max_cost
        self.requests = self.cached = self._under_way = 0
        self._cap = None if max_cost is None else Decimal(str(max_cost))
        self._spent = self._reserved = Decimal(0)
        self.closed = False
        """True once the cap has stopped a request: nothing further is sent."""
        self._lock = threading.Lock()

    @property
    def spent(self) -> float:
        """USD."""
        return float(self._spent)

    def reserve(self, most: Decimal) -> bool:
        """Set aside the most that one request can cost; False where the cap would be passed.

        What is under way may turn out cheaper than its bound; where nothing is, the ledger closes.
        """
        with self._lock:
            if self.closed:
                return False
            if self._cap is not None and self._spent + self._reserved + most > self._cap:
                self.closed = not self._under_way
                return False
            self._reserved += most
            self._under_way += 1
            self.requests += 1
            return True

    def settle(self, most: Decimal, cost: Decimal) -> None:
        """Put what it did cost in place of what was reserved."""
        with self._lock:
            self._reserved -= most
            self._under_way -= 1
            self._spent += cost

    def line(self) -> str:
        """Return what was asked and spent, in a few words; "" before anything was asked."""
        if not (self.requests or self.cached):
            return ""
        parts = [f"{self.requests:,} requests"]
        if self.cached:
            parts.append(f"{self.cached:,} from the cache")
        if self._spent:
            parts.append(f"${self.spent:,.4f}")
        return ", ".join(parts)
