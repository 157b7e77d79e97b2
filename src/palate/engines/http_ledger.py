"""Costs and their cap, in `Decimal` so that no rounding passes it; tokens that servers read."""

from __future__ import annotations

import json
import logging
import re
import threading
import time
from bisect import bisect_left, insort
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import Any, Literal, NamedTuple

from palate.seeding import digest
from palate.stores import Documents

MINUTE = 60.0
ANSWERED = "answered"
"""Under which the notes of a place hold the name of the model that answered: no note itself."""
log = logging.getLogger(__name__)
MOST = 12
"""Letters a token, above which no tokenizer reads; prose has 3 to 5, in any script."""
MANY = 6
"""Letters a token that are rare: other prompts decide what they mean."""
SHORT = 400
"""Letters below which a prompt says nothing."""
LEVEL, SPAN = 4, 1.2
"""So many lengths, so far apart, at one count of tokens show a limit; two where that is rare."""
REPEATED = re.compile(r"\s+|([^\w\s])[\W_]+|(\w)\2{2,}")


class Ledger:
    """Sums over a session's endpoints; requests reserve what they may cost, so the cap holds."""

    def __init__(self, max_cost: float | None = None, documents: Documents | None = None) -> None:
        self.max_cost, self._documents = max_cost, documents
        self.requests = self.cached = self._under_way = 0
        self._cap = None if max_cost is None else Decimal(str(max_cost))
        self._spent = self._reserved = Decimal(0)
        self.ways: dict[str, int] = {}
        """How servers are asked for long replies, by their root: see `WAYS` in http_replies."""
        self.counts: defaultdict[str, PromptCounts] = defaultdict(PromptCounts)
        """What servers read of prompts, by model and path."""
        self._notes: dict[str, dict[str, str]] = {}
        self._noted: set[tuple[str, str]] = set()  # in this session
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
        """Store a model's note for recalled runs; a session's first holds, "" takes back others."""
        with self._lock:
            notes, holds = self.notes(place), (place, kind) in self._noted
            if text:
                self._noted.add((place, kind))
            if holds or text == notes.get(kind, ""):
                return
            self._store(place, notes, kind, text)
        if text:
            log.warning("%s: %s", place.split(maxsplit=1)[0], text)

    def learn(self, place: str, kind: str, text: str) -> None:
        """Store what a place was seen to do, without a line on the screen."""
        with self._lock:
            self._store(place, self.notes(place), kind, text)

    def note_answered(self, place: str, model: str, name: str) -> None:
        """Note the model that answered where another was asked, and one that is not the former.

        What is kept of the former, such as vectors, is then of another model.
        """
        with self._lock:
            notes = self.notes(place)
            former = notes.get(ANSWERED)
            if former != name and name:
                self._store(place, notes, ANSWERED, name)
        if former and former != name and name:
            moved = f"{model} was {former} and is {name} now: what is kept may be of both models"
            self.note(place, "moved", moved)
        other = f"{model} was asked, and {name} answered" if name not in ("", model) else ""
        self.note(place, "model", other)

    def _store(self, place: str, notes: dict[str, str], kind: str, text: str) -> None:
        notes[kind] = text
        if self._documents is not None:
            self._documents.put_json(digest("notes", place), notes)

    def notes(self, place: str) -> dict[str, str]:
        """Return what is noted of a model by kind, in this session or before it."""
        if place not in self._notes:
            stored = self._documents and self._documents.get_json(digest("notes", place))
            self._notes[place] = stored or {}
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

    @contextmanager
    def counted(self, state: Literal["wanted", "on its way"]) -> Iterator[None]:
        """Count a request from when it is drawn until its end, or while it is on its way."""
        with self._lock:
            self._began = time.monotonic() if self._began is None else self._began
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
            now, under_way = time.monotonic(), self._open["on its way"]
            lately = sum(self._of_second[int(now) - k] for k in range(int(MINUTE)))
            rate = lately * MINUTE / min(MINUTE, max(1.0, now - self._began))
            return (
                f"{self._open['wanted'] - under_way:,} waiting, {under_way:,} under way, "
                f"{self._replies:,} done, {rate:,.0f} a minute"
                + (f", {self._tokens:,} tokens" if self._tokens else "")
                + self._sums()
            )

    def line(self) -> str:
        """Return what was asked and spent, in a few words; "" before anything was asked."""
        return f"{self.requests:,} requests{self._sums()}" if self.requests or self.cached else ""

    def _sums(self) -> str:
        cached = f", {self.cached:,} from the cache" if self.cached else ""
        return cached + (f", ${self.spent:,.4f}" if self._spent else "")


class Count(NamedTuple):
    """One prompt: its letters, and the tokens that the server read."""

    letters: int
    tokens: int

    @property
    def doubtful(self) -> bool:
        """Whether the tokens are so few that other prompts decide what they mean."""
        return self.letters >= SHORT and self.letters > MANY * self.tokens


class PromptCounts:
    """The counts of one model at one path, which together show whether prompts are cut.

    A server that leaves out what its prefix cache held says few tokens, but never the same ones.

    >>> counts = PromptCounts()
    >>> counts.add(Count(1600, 512)), counts.add(Count(4700, 512))
    (None, None)
    >>> counts.cut(Count(1600, 512)), counts.cut(Count(4700, 512))
    (False, True)
    """

    def __init__(self) -> None:
        self._lengths: dict[int, set[int]] = defaultdict(set)
        self._sorted: list[int] = []
        self._few = Counter[int]()  # of lengths with over `MOST` letters a token, by their tokens
        self.warned = False

    def add(self, count: Count) -> None:
        """Take over a count."""
        letters, tokens = count
        if letters >= SHORT and letters not in self._lengths[tokens]:
            self._lengths[tokens].add(letters)
            insort(self._sorted, letters)
            self._few.update([tokens] if letters > MOST * tokens else ())

    def cut(self, count: Count) -> bool:
        """Tell whether a prompt of this count was cut, by all that is known until now."""
        if count.doubtful and count.letters > MOST * count.tokens:
            few, most = self._few.total(), max(self._few.copy().values(), default=0)
            return few < LEVEL or 2 * most > few
        same = list(self._lengths[count.tokens]) or [count.letters]  # other threads add
        if len(same) < (2 if count.doubtful else LEVEL) or max(same) < SPAN * min(same):
            return False
        longer = len(self._sorted) - bisect_left(self._sorted, count.letters)
        return 2 * sum(it >= count.letters for it in same) >= longer


def count_of(body: bytes, stated: Any, used: tuple[int, int] | None) -> Count | None:
    """Return the count of a request of texts; None where ids were sent, or no tokens are told."""
    tokens = used[0] if used is not None else 0
    if not tokens or not isinstance(stated, dict):
        return None
    details = stated.get("prompt_tokens_details")
    names = ("cache_read_input_tokens", "cache_creation_input_tokens")
    cached = [stated.get(name) for name in names]
    cached.append(details.get("cached_tokens") if isinstance(details, dict) else 0)
    tokens += sum(it for it in cached if isinstance(it, int))  # some servers leave these out
    request = json.loads(body)
    inputs = request.get("input", [it.get("content") for it in request.get("messages", ())])
    texts = [it for it in (inputs if isinstance(inputs, list) else [inputs]) if isinstance(it, str)]
    letters = sum(map(len, texts))
    if letters > MANY * tokens:  # runs of one sign are few tokens
        letters = sum(len(REPEATED.sub(r"\2 ", text)) for text in texts)
    return Count(letters, tokens) if texts else None


def usage(reply: Any) -> tuple[int, int] | None:
    """Return the tokens read and written; some servers have a thought in their total alone."""
    try:
        used = reply["usage"]
        read, written = int(used["prompt_tokens"]), int(used.get("completion_tokens") or 0)
        tokens = read, max(written, int(used.get("total_tokens") or 0) - read)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError):
        return None
    return tokens if min(tokens) >= 0 else None
