"""The cost of asking, and the cap on it; in `Decimal`, so that no rounding passes the cap."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from decimal import Decimal

from palate.engines.http.prompt_counts import PromptCounts
from palate.seeding import digest
from palate.stores import Documents

MINUTE = 60.0
log = logging.getLogger(__name__)


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

    def __init__(self, max_cost: float | None = None, documents: Documents | None = None) -> None:
        self.max_cost, self._documents = max_cost, documents
        self.requests = self.cached = self._under_way = 0
        self._cap = None if max_cost is None else Decimal(str(max_cost))
        self._spent = self._reserved = Decimal(0)
        self.ways: dict[str, int] = {}
        """How servers are asked for long replies, by their root: see `events.WAYS`."""
        self.counts: defaultdict[str, PromptCounts] = defaultdict(PromptCounts)
        """What servers read of prompts, by model and path."""
        self._notes: dict[str, dict[str, str]] = {}
        self._told: dict[tuple[str, str], str] = {}
        self._replies = self._tokens = 0
        self._open = Counter[str]()
        self._began: float | None = None
        self._of_second = Counter[int]()  # replies
        self.closed = False
        """True once the cap has stopped a request: nothing further is sent."""
        self._lock = threading.Lock()

    @property
    def spent(self) -> float:
        """USD."""
        return float(self._spent)

    def note(self, place: str, kind: str, text: str = "") -> None:
        """Keep what runs must tell of a model at a place, so that a recalled run tells it too.

        It is said once; "" takes back what an earlier session kept.
        """
        with self._lock:
            notes = self.notes(place)
            if self._told.setdefault((place, kind), "") or text == notes.get(kind, ""):
                return
            self._told[place, kind] = notes[kind] = text
            if self._documents is not None:
                self._documents.put_json(digest("notes", place), notes)
        if text:
            log.warning("%s: %s", place.split(maxsplit=1)[0], text)

    def notes(self, place: str) -> dict[str, str]:
        """Return what is noted of a model by kind, in this session or before it."""
        if place not in self._notes:
            kept = self._documents and self._documents.get_json(digest("notes", place))
            self._notes[place] = kept or {}
        return self._notes[place]

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

    def wanted(self) -> AbstractContextManager[None]:
        """Count a request from when it is drawn until it has its end."""
        self._began = time.monotonic() if self._began is None else self._began
        return self._counted("wanted")

    def on_its_way(self) -> AbstractContextManager[None]:
        """Count a request from when it leaves until something comes of it."""
        return self._counted("on their way")

    @contextmanager
    def _counted(self, state: str) -> Iterator[None]:
        with self._lock:
            self._open[state] += 1
        try:
            yield
        finally:
            with self._lock:
                self._open[state] -= 1

    def replied(self, used: tuple[int, int] | None) -> None:
        """Count a reply and its tokens."""
        with self._lock:
            self._replies += 1
            self._tokens += sum(used or (0,))
            self._of_second[int(time.monotonic())] += 1

    def progress(self) -> str:
        """Return what is under way, how fast replies come and what they cost, in a few words."""
        with self._lock:
            if self._began is None or not self._open["wanted"]:
                return self.line()
            now, on_their_way = time.monotonic(), self._open["on their way"]
            lately = sum(self._of_second[int(now) - k] for k in range(int(MINUTE)))
            rate = lately * MINUTE / min(MINUTE, max(1.0, now - self._began))
            return (
                f"{self._open['wanted'] - on_their_way:,} waiting, {on_their_way:,} under way, "
                f"{self._replies:,} done, {rate:,.0f} a minute"
                + (f", {self._tokens:,} tokens" if self._tokens else "")
                + self._sums()
            )

    def line(self) -> str:
        """Return what was asked and spent, in a few words; "" before anything was asked."""
        asked = self.requests or self.cached
        return f"{self.requests:,} requests{self._sums()}" if asked else ""

    def _sums(self) -> str:
        cached = f", {self.cached:,} from the cache" if self.cached else ""
        return cached + (f", ${self.spent:,.4f}" if self._spent else "")
