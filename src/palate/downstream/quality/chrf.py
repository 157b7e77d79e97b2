"""chrF: characters and runs of characters that two texts have in common."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

from palate.downstream.quality.against_reference import AgainstReference
from palate.specs import Spec

ORDERS = 6
BETA = 2


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
        ours, theirs = _grams(response), _kept(reference)
        return sum(map(_f_score, ours, theirs)) / ORDERS


def _grams(text: str) -> Sequence[Counter[str]]:
    bare = "".join(text.split())
    return [
        Counter(bare[k : k + n] for k in range(len(bare) - n + 1)) for n in range(1, ORDERS + 1)
    ]


_kept = lru_cache(maxsize=1)(_grams)
"""Of a reference: the responses to one come after another."""


def _f_score(ours: Counter[str], theirs: Counter[str]) -> float:
    hits = sum(min(count, theirs[gram]) for gram, count in ours.items() if gram in theirs)
    if not hits:
        return 0.0
    precision, recall = hits / ours.total(), hits / theirs.total()
    return (1 + BETA**2) * precision * recall / (BETA**2 * precision + recall)
