"""Counts of how a response is written: a source of vectors without a model."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from palate.embeddings.items import Item
from palate.embeddings.sources import OfResponse, Vector
from palate.seeding import digest
from palate.words import ENDS, OTHER, plain_words


class Style(OfResponse):
    """Sixteen counts of how a response is written: cheap, and of no model.

    Logarithms of lengths, shares of kinds of characters, and marks per sentence or word. Words are
    those of `palate.words` where a script has no spaces or writes vowels as marks; pronouns are
    English ones.
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
OTHER_MARKS = {
    "?": "？؟՞፧",
    "!": "！՜߹",
    ",": "，、､،၊፣՝",
    ";": "；؛፤",
    ":": "：፥",
    "(": "（",
    ")": "）",
    '"': "「」『』《》〈〉｢｣",
}
"""Marks of other scripts, by the Latin mark that does what they do."""
ENDING = re.compile(rf"(?:[{ENDS}]|．(?!\d))+")
AS_LATIN = str.maketrans({mark: latin for latin, marks in OTHER_MARKS.items() for mark in marks})
OTHER_SCRIPT = re.compile(f"{OTHER.pattern}|[\u0530-\u08ff\u1200-\u137f]")
"""Scripts without spaces, those with marks for vowels, and those with marks of their own between
sentences: Armenian, Arabic and its neighbours, Ethiopic."""


def style_of(text: str) -> Vector:
    """Return the counts of one text.

    >>> style_of("I like tea. Do you?")[:3].astype(float).round(2).tolist()
    [1.79, 0.96, 0.25]
    >>> style_of("我喜欢茶。你呢？")[:3].astype(float).round(2).tolist()
    [1.95, 0.0, 0.39]
    """
    if text.isascii() or not OTHER_SCRIPT.search(text):
        words = WORD.findall(text.lower())
    else:
        words = [word for word in plain_words(text) if any(c.isalpha() for c in word)]
        text = ENDING.sub(_as_latin, text).translate(AS_LATIN)
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


def _as_latin(ends: re.Match[str]) -> str:
    # With a space behind it, as a stop has that ends a sentence.
    return "".join(mark if mark in "?!" else "." for mark in ends[0].translate(AS_LATIN)) + " "
