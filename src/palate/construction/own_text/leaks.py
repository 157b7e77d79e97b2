"""Which of a user's other texts give a row's answer away, and why.

Two texts are near-duplicates if their words are the same; or if they share a run of 13 words; or,
where one has fewer than 13, if the Jaccard index of their words, counted as often as they occur, is
0.8 or more and both have four words. Words are `\\w+` in lower case.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from hashlib import blake2b

from palate.contexts.leaks import OPENING, normal
from palate.data import asked_title
from palate.records import read_date

RUN, SEED, JACCARD, FEWEST = 13, 7, 0.8, 4
NOT_EARLIER, SAME_INPUT = "not earlier", "same input"
SHARES_REFERENCE = "shares the reference"
WORD = re.compile(r"\w+")


def words_of(text: str) -> list[str]:
    """Return a text's words in lower case."""
    return WORD.findall(text.lower())


def text_key(text: str) -> bytes:
    """Return the hash of a text's words; of a text without words, of its characters."""
    plain = " ".join(words_of(normal(text))) or normal(text)
    return blake2b(plain.encode(), digest_size=16).digest()


def is_earlier(first: str | None, second: str | None) -> bool | None:
    """Tell whether one date is before another; None where one is not known.

    Dates are compared as finely as both are known, and equal ones are not earlier.

    >>> is_earlier("2012", "2013-05-01"), is_earlier("2013", "2013-05-01"), is_earlier(None, "2013")
    (True, False, None)
    """
    if first is None or second is None:
        return None
    return read_date(first).is_before(read_date(second))


class Passage:
    """A text to which many others are compared."""

    def __init__(self, text: str) -> None:
        self.words = words_of(text)

    @cached_property
    def _seeds(self) -> frozenset[str]:
        return frozenset(_runs(self.words, SEED))

    @cached_property
    def _every_run(self) -> frozenset[str]:
        return frozenset(_runs(self.words, RUN))

    def shares_run(self, words: Sequence[str]) -> bool:
        """Tell whether 13 words in a row are the same.

        A run of 13 holds a run of 7 at a place divisible by 7, so that few runs are looked up.
        """
        if min(len(words), len(self.words)) < RUN:
            return False
        sparse = (" ".join(words[k : k + SEED]) for k in range(0, len(words) - SEED + 1, SEED))
        if self._seeds.isdisjoint(sparse):
            return False
        return not self._every_run.isdisjoint(_runs(words, RUN))

    def is_near(self, words: Sequence[str]) -> bool:
        """Tell whether these words are a near-duplicate."""
        if words == self.words:
            return bool(words)
        if min(len(words), len(self.words)) >= RUN:
            return self.shares_run(words)
        return self.is_alike(words)

    def is_alike(self, words: Sequence[str]) -> bool:
        """Tell whether the Jaccard index is 0.8 or more, however long both are."""
        fewest, most = sorted((len(words), len(self.words)))
        if fewest < FEWEST or fewest < JACCARD * most:
            return words == self.words and bool(words)
        first, second = Counter(words), Counter(self.words)
        return (first & second).total() >= JACCARD * (first | second).total()


def _runs(words: Sequence[str], n: int) -> list[str]:
    return [" ".join(words[k : k + n]) for k in range(len(words) - n + 1)]


class Guard:
    """What no other text of the user may hold beside one row."""

    def __init__(self, question: str, source: str, reference: str) -> None:
        self.source, self.reference = Passage(normal(source)), Passage(normal(reference))
        self.title = asked_title(question)
        self.openings = [
            (_opening(self.title, normal(question)), SAME_INPUT),
            (_opening(normal(reference), ""), SHARES_REFERENCE),
        ]

    def reason(self, text: str, source: str | None) -> str | None:
        """Return why a text, written on this source, may not stand beside the row; else None."""
        plain = normal(text)
        words = words_of(plain)
        on = words_of(normal(source)) if source else []
        if self.source.is_near(on) or self.source.is_near(words) or asked_title(text) == self.title:
            return SAME_INPUT
        if self.reference.is_near(words) or self.reference.shares_run(on):
            return SHARES_REFERENCE
        return next((why for opening, why in self.openings if opening and opening in plain), None)


def _opening(text: str, otherwise: str) -> str:
    # The opening of very few words is in texts that have nothing to do with it.
    return text[:OPENING] if len(words_of(text)) >= FEWEST else otherwise
