"""Counts of the tokens that servers read of prompts, and whether prompts were cut."""

from __future__ import annotations

import json
import re
from bisect import bisect_left, insort
from collections import Counter, defaultdict
from typing import Any, NamedTuple

MOST = 12
"""Letters a token, above which no tokenizer reads; prose has 3 to 5, in any script."""
MANY = 6
"""Letters a token that are rare: other prompts decide what they mean."""
SHORT = 400
"""Letters below which a prompt says nothing."""
LEVEL, SPAN = 4, 1.2
"""So many lengths, so far apart, at one count of tokens show a limit; two where that is rare."""
REPEATED = re.compile(r"\s+|([^\w\s])[\W_]+|(\w)\2{2,}")


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


def count_of(body: bytes, usage: Any, used: tuple[int, int] | None) -> Count | None:
    """Return the count of a request of texts; None where ids were sent, or no tokens are told."""
    tokens = used[0] if used is not None else 0
    if not tokens or not isinstance(usage, dict):
        return None
    details = usage.get("prompt_tokens_details")
    held = [usage.get(name) for name in ("cache_read_input_tokens", "cache_creation_input_tokens")]
    held.append(details.get("cached_tokens") if isinstance(details, dict) else 0)
    tokens += sum(it for it in held if isinstance(it, int))  # some servers leave these out
    asked = json.loads(body)
    inputs = asked.get("input", [message.get("content") for message in asked.get("messages", ())])
    texts = [it for it in (inputs if isinstance(inputs, list) else [inputs]) if isinstance(it, str)]
    letters = sum(map(len, texts))
    if letters > MANY * tokens:  # runs of one sign are few tokens
        letters = sum(len(REPEATED.sub(r"\2 ", text)) for text in texts)
    return Count(letters, tokens) if texts else None
