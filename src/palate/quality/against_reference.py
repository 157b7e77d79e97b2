"""The base of measures of overlap with the user's own reference text."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

from palate.quality.metric_base import QualityMetricBase, require
from palate.quality.protocol import QualityScore, QuestionResponse
from palate.records import Question
from palate.seeding import digest
from palate.specs import Spec

FORMAT = 1
"""Raised when a measure's values change: ratings that were kept are then asked for again."""


class AgainstReference(QualityMetricBase):
    """A number in [0, 1] for a response beside the row's `reference`.

    Subclasses give `value`, and `unusable` where some references cannot be read.
    """

    needs = ("reference",)

    def __init__(self, spec: Spec, details: dict[str, Any]) -> None:
        self.spec = str(spec)
        self.details = details | {"format": FORMAT}
        self.fingerprint = digest("overlap", self.details)

    @abstractmethod
    def value(self, response: str, reference: str) -> float:
        """Return how far two texts that are not blank overlap, from 0 to 1."""

    def unusable(self) -> str | None:
        """Say what a reference is that `reads` refuses; None where all are read."""
        return None

    def reads(self, reference: str) -> bool:
        """Say whether this measure finds anything in a reference."""
        return bool(reference.strip())

    def check(self, rows: Sequence[Question]) -> None:
        """Raise `BenchmarkError` where rows have no reference, or one that is not read."""
        advice = "give every row its `reference`, or leave these rows out"
        require(rows, lambda row: not (row.gold.reference or "").strip(), "no `reference`", advice)
        refused = self.unusable()
        if refused is not None:
            advice = "take another measure, or leave these rows out"
            require(rows, lambda row: not self.reads(row.gold.reference or ""), refused, advice)

    def _read(self, item: QuestionResponse) -> tuple[object, ...]:
        return (item.question.gold.reference, item.response)

    def _rated(self, items: Sequence[QuestionResponse]) -> Iterator[tuple[int, QualityScore]]:
        # By reference, so that what is computed of one is kept only while it is read.
        for k in sorted(range(len(items)), key=lambda k: items[k].question.gold.reference or ""):
            overlap = self.value(items[k].response, items[k].question.gold.reference or "")
            yield k, QualityScore(value=min(1.0, max(0.0, overlap)))
