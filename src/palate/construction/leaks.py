"""Which of a user's other texts give a row's answer away, and why.

Two texts are near-duplicates if their words are the same; or if they share a run of 13 words; or,
where one has fewer than 13, if the Jaccard index of their words, counted as often as they occur, is
0.8 or more and both have four words. Words are `\\w+` in lower case; in scripts without spaces a
letter is one, and as many stand for 13 or four words as say as much (`palate.words`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from hashlib import blake2b

from palate.data import OPENING, asked_title, normal
from palate.records import read_date
from palate.words import opening, pieces, plain_words, runs, weight

RUN, JACCARD, FEWEST = 13, 0.8, 4
SEED = RUN // 2 - 1
"""A run of 13 words holds one of these pieces of another text, in any script."""
NOT_EARLIER, SAME_INPUT = "not earlier", "same input"
SHARES_REFERENCE = "shares the reference"


def words_of(text: str) -> list[str]:
    """Return the words of a text's normal form, in lower case and without punctuation."""
    return plain_words(normal(text))


def text_key(text: str) -> bytes:
    """Return the hash of a text's words; of a text without words, of its characters."""
    plain = " ".join(words_of(text)) or normal(text)
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
        self._weight = weight(self.words)

    @cached_property
    def _seeds(self) -> frozenset[str]:
        return frozenset(runs(self.words, SEED))

    @cached_property
    def _every_run(self) -> frozenset[str]:
        return frozenset(runs(self.words, RUN))

    def shares_run(self, words: Sequence[str]) -> bool:
        """Tell whether 13 words in a row are the same."""
        if min(weight(words), self._weight) < RUN or self._seeds.isdisjoint(pieces(words, SEED)):
            return False
        return not self._every_run.isdisjoint(runs(words, RUN))

    def is_near(self, words: Sequence[str]) -> bool:
        """Tell whether these words are a near-duplicate."""
        if words == self.words:
            return bool(words)
        if min(weight(words), self._weight) >= RUN:
            return self.shares_run(words)
        return self.is_alike(words)

    def is_alike(self, words: Sequence[str]) -> bool:
        """Tell whether the Jaccard index is 0.8 or more, however long both are."""
        fewest, most = sorted((len(words), len(self.words)))
        if min(weight(words), self._weight) < FEWEST or fewest < JACCARD * most:
            return words == self.words and bool(words)
        first, second = Counter(words), Counter(self.words)
        return (first & second).total() >= JACCARD * (first | second).total()


class Guard:
    """What no other text of the user may hold beside one row."""

    def __init__(self, question: str, source: str, reference: str) -> None:
        self.source, self.reference = Passage(source), Passage(reference)
        self.title = asked_title(question)
        self.openings = [
            (_beginning(self.title, normal(question)), SAME_INPUT),
            (_beginning(normal(reference), ""), SHARES_REFERENCE),
        ]

    def reason(self, text: str, source: str | None) -> str | None:
        """Return why a text, written on this source, may not stand beside the row; else None."""
        plain, words = normal(text), words_of(text)
        on = words_of(source) if source else []
        if self.source.is_near(on) or self.source.is_near(words) or asked_title(text) == self.title:
            return SAME_INPUT
        if self.reference.is_near(words) or self.reference.shares_run(on):
            return SHARES_REFERENCE
        return next((why for start, why in self.openings if start and start in plain), None)


def _beginning(text: str, otherwise: str) -> str:
    # The opening of very few words is in texts that have nothing to do with it.
    return opening(text, OPENING) if weight(words_of(text)) >= FEWEST else otherwise
