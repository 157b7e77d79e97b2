"""How a response is written, counted: a source of vectors without a model."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from palate.embeddings.items import Item
from palate.embeddings.sources import OfResponse, Vector
from palate.seeding import digest


class Style(OfResponse):
    """Sixteen counts of how a response is written: cheap, and of no model.

    Logarithms of lengths, shares of kinds of characters, and marks per sentence or word.
    """

    stored, exact = False, True
    fingerprint = meaning = digest("style", 1)
    width = 16

    def vectors(self, items: Sequence[Item]) -> Iterator[tuple[int, Vector | None]]:
        """Yield the counts."""
        for k, item in enumerate(items):
            yield k, style_of(item.response)


WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?")
SENTENCE = re.compile(r"[.!?]+(?:\s|\Z)")
FIRST_PERSON = frozenset(("i", "me", "my", "mine", "myself", "we", "us", "our", "i'm", "i've"))
SECOND_PERSON = frozenset(("you", "your", "yours", "you're", "yourself"))


def style_of(text: str) -> Vector:
    """Return the counts of one text.

    >>> style_of("I like tea. Do you?")[:3].astype(float).round(2).tolist()
    [1.79, 0.96, 0.25]
    """
    words = WORD.findall(text.lower())
    n, letters = max(1, len(words)), max(1, sum(c.isalpha() for c in text))
    sentences = max(1, len(SENTENCE.findall(text)))
    lines = [line for line in text.splitlines() if line.strip()]

    def share(found: Iterable[Any]) -> float:
        return sum(1 for _ in found) / n

    counts = [
        np.log1p(len(words)),
        np.log(letters / n),
        np.log1p(n / sentences) - 1,
        np.log1p(len(lines)),
        len(set(words)) / n,
        sum(c.isupper() for c in text) / letters,
        sum(w.isupper() and len(w) > 1 for w in re.findall(r"\w+", text)) / n,
        text.count("?") / sentences,
        text.count("!") / sentences,
        text.count(",") / n,
        sum(text.count(mark) for mark in ";:—–()") / n,
        sum(text.count(mark) for mark in "\"“”‘'’") / n,
        share(re.findall(r"\d+", text)),
        share(re.findall(r"https?://|www\.", text)),
        share(w for w in words if w in FIRST_PERSON),
        share(w for w in words if w in SECOND_PERSON),
    ]
    return np.array(counts, np.float32)
