"""ROUGE and chrF: words and characters, and runs of them, that two texts have in common."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from palate.quality.against_reference import AgainstReference
from palate.specs import Spec
from palate.words import one_form, plain_words

ROUGE_N = {"rouge-1": 1, "rouge-2": 2}
ROUGE = (*ROUGE_N, "rouge-l")
WORD = re.compile(r"[a-z0-9]+")
OTHER_ALPHABETS = (
    "\u0370-\u1cff\u1f00-\u1fff\u2c80-\u2dff\u3005-\ua6ff\ua800-\uab2f\uab70-\ufaff\ufb13-\ufeff"
    "\uff66-\uffdc\U00010000-\U0001d3ff\U0001e000-\U0003ffff"
)
OTHER = re.compile(rf"[{OTHER_ALPHABETS}](?<=\w)")
PART = re.compile(rf"[a-z0-9]+|[{OTHER_ALPHABETS}]+")
ORDERS = 6
BETA = 2


class Rouge(AgainstReference):
    """`overlap:rouge-1|rouge-2|rouge-l`: F = 2PR / (P + R) of common n-grams, or of the longest
    common subsequence (Lin 2004).

    Words are runs of a–z and 0–9 in lower case, as in `rouge_score`, and those of `palate.words` in
    alphabets other than the Latin; there is no stemmer.
    """

    def __init__(self, spec: Spec, name: str) -> None:
        self.n = ROUGE_N.get(name)
        super().__init__(spec, {"measure": name, "use_stemmer": False})

    def unusable(self) -> str:
        """Name references with too few words."""
        return f"a `reference` without {self.n or 1} or more words"

    def reads(self, reference: str) -> bool:
        """Say whether the reference has words enough."""
        return len(_words(reference)) >= (self.n or 1)

    def value(self, response: str, reference: str) -> float:
        """Return the F-measure."""
        ours, theirs = _words(response), _words(reference)
        if self.n is not None:
            return _f_score(_ngrams(ours, self.n), _ngrams(theirs, self.n), beta=1)
        return 2 * _longest_common(ours, theirs) / (len(ours) + len(theirs))


class Chrf(AgainstReference):
    """`overlap:chrf`: the mean over n = 1 … 6 of F_n = (1 + β²) P R / (β² P + R), β = 2
    (Popović 2015, 2017).

    P and R are the shares of the response's and the reference's character n-grams that the other
    has too, each as often as both have it. White space plays no part, case does. An order that a
    text is too short for counts as 0 (sacrebleu's `eps_smoothing`).
    """

    def __init__(self, spec: Spec) -> None:
        super().__init__(spec, {"measure": "chrf", "orders": ORDERS, "beta": BETA})

    def value(self, response: str, reference: str) -> float:
        """Return the mean F."""
        pairs = zip(_characters(response), _latest_characters(reference), strict=True)
        return sum(_f_score(ours, theirs, BETA) for ours, theirs in pairs) / ORDERS


def _words(text: str) -> tuple[str, ...]:
    text = one_form(text).lower()
    if text.isascii() or not OTHER.search(text):
        return tuple(WORD.findall(text))
    return tuple(word for part in PART.findall(text) for word in plain_words(part))


def _ngrams(items: str | tuple[str, ...], n: int) -> Counter[Any]:
    return Counter(items[k : k + n] for k in range(len(items) - n + 1))


def _characters(text: str) -> list[Counter[Any]]:
    bare = "".join(text.split())
    return [_ngrams(bare, n) for n in range(1, ORDERS + 1)]


_latest_characters = lru_cache(maxsize=1)(_characters)
"""Of a reference: the responses to one come after another."""


def _f_score(ours: Counter[Any], theirs: Counter[Any], beta: int) -> float:
    hits = sum(min(count, theirs[gram]) for gram, count in ours.items() if gram in theirs)
    if not hits:
        return 0.0
    precision, recall = hits / ours.total(), hits / theirs.total()
    return (1 + beta**2) * precision * recall / (beta**2 * precision + recall)


def _longest_common(a: Sequence[str], b: Sequence[str]) -> int:
    """Return the length of the longest common subsequence, a row of its table in one integer.

    Bit j of a row is 0 where the length grows from b[:j] to b[:j + 1] (Hyyrö 2004).
    """
    places: dict[str, int] = defaultdict(int)
    for j, word in enumerate(b):
        places[word] |= 1 << j
    every = row = (1 << len(b)) - 1
    for word in a:
        matched = row & places[word]
        row = ((row + matched) | (row - matched)) & every
    return len(b) - row.bit_count()
