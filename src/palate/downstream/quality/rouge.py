"""ROUGE: words, pairs of words or a subsequence of words that two texts have in common."""

from __future__ import annotations

import re

from palate.downstream.quality.against_reference import (
    AgainstReference,
    import_text_metrics,
    library_of_text_metrics,
)
from palate.specs import Spec

KEYS = {"rouge-1": "rouge1", "rouge-2": "rouge2", "rouge-l": "rougeL"}
"""What torchmetrics calls them."""
FEWEST = {"rouge-1": 1, "rouge-2": 2, "rouge-l": 1}
"""Words that a reference needs for any overlap to be possible."""
WORD = re.compile(r"[a-z0-9]+")


class Rouge(AgainstReference):
    """`overlap:rouge-1|rouge-2|rouge-l`: F = 2PR / (P + R) of common n-grams, or of the longest
    common subsequence (Lin 2004).

    Words are runs of a–z and 0–9 in lower case; there is no stemmer. Computed by torchmetrics.
    """

    def __init__(self, spec: Spec, name: str) -> None:
        self._score = import_text_metrics().rouge_score
        self.name = name
        details = {"measure": name, "use_stemmer": False, "library": library_of_text_metrics()}
        super().__init__(spec, details)

    def unusable(self) -> str:
        """Name references with too few words."""
        return (
            f"a `reference` without {FEWEST[self.name]} or more words of a–z and 0–9 "
            "(chrf reads other scripts)"
        )

    def reads(self, reference: str) -> bool:
        """Say whether the reference has words enough."""
        return len(WORD.findall(reference.lower())) >= FEWEST[self.name]

    def value(self, response: str, reference: str) -> float:
        """Return the F-measure."""
        key = KEYS[self.name]
        found = self._score(response, reference, rouge_keys=key, use_stemmer=False)
        return float(found[f"{key}_fmeasure"])
