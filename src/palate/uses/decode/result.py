"""Guided decoding as a result: a cell per scorer, context, method and weight, and its rows."""

from __future__ import annotations

from typing import ClassVar

from palate.metrics import Estimate
from palate.records import Record
from palate.uses.downstream import Downstream
from palate.uses.result import Cell, CellResult, CellSummary


class TextFacts(Record):
    """What answers look like, whatever they say; means over answers."""

    words: float
    cut_off: float
    """Share that ended at `max_tokens`."""
    empty: float
    """Share without a word."""
    distinct_bigrams: float | None
    """Share of an answer's pairs of words in a row that are not a repetition; None where no answer
    has two words."""


class Guiding(Record):
    """Whether guidance acted."""

    reward: Estimate
    """The guide's own reward of guided answers minus that of unguided ones, under one context."""
    divergence: float | None
    """Mean over answers of an unbiased estimate of KL(guided ‖ policy), in nats."""
    divergence_bound: float | None
    """The most it can be, for a method that gives no estimate."""
    text: TextFacts
    tokens: dict[str, float]
    """Tokens that policy and guide read to write an answer, prompts left out."""


class GuidedQuality(Record):
    """One measure of the quality of guided answers."""

    quality: str
    surrogate: bool
    contrast: bool
    """Whether quality is a contrast, minus that for the mirrored user; values are over couples."""
    mean: Estimate
    gain: Estimate
    """Over the same policy without a guide, paired."""
    p_holm: float | None = None
    """Of no gain, Holm-corrected over the cells of one measure; oracles apart."""
    identity_gain: Estimate | None
    """Over the same guide that reads a stranger; None where there is no such cell."""
    identity_p_holm: float | None = None
    unrated: dict[str, int]
    """Why answers have no quality."""


class GuidedCell(Cell):
    """One scorer under one context that guides by one method at one weight."""

    method: str
    weight: float | None
    samples: str
    """Content hash of the guided answers."""
    left_out: dict[str, int]
    """Why rows are not guided."""
    guiding: Guiding
    qualities: tuple[GuidedQuality, ...]

    @property
    def method_name(self) -> str:
        """The method and its weight."""
        return self.method if self.weight is None else f"{self.method} {self.weight:g}"


class UnguidedQuality(Record):
    """One measure of the quality of the policy's own answers."""

    quality: str
    surrogate: bool
    contrast: bool
    mean: Estimate
    unrated: dict[str, int]


class DecodeSummary(CellSummary[GuidedCell]):
    """All cells that guide one policy."""

    policy: str
    n: int
    """Answers to a row."""
    samples: str
    """Content hash of the unguided answers."""
    text: TextFacts
    """Of the unguided answers."""
    qualities: tuple[UnguidedQuality, ...]


class DecodeResult(CellResult[DecodeSummary]):
    """Guided decoding of one policy.

    A column is the mean quality of answers by one measure: first of the policy's own, then of what
    each cell guides.
    """

    kind: ClassVar[str] = "decode"
    content_type = DecodeSummary

    def downstream(self, k: int | None = None) -> list[Downstream]:
        """Return the quality of guided answers, a measure for each method and weight.

        All scorers are held to the rows that all of them guide.
        """
        del k
        by_method: dict[str, list[int]] = {}
        for number, cell in enumerate(self.summary.cells):
            if not cell.oracle:
                by_method.setdefault(cell.method_name, []).append(number)
        return [
            self._measure(method, numbers, m)
            for method, numbers in by_method.items()
            for m in range(len(self.summary.qualities))
        ]

    def _measure(self, method: str, cells: list[int], m: int) -> Downstream:
        summary, n = self.summary, len(self.summary.qualities)
        left_out = any(
            summary.cells[number].left_out or summary.cells[number].qualities[m].unrated
            for number in cells
        )
        return self.measured(
            [n + number * n + m for number in cells],
            f"guided by {method}",
            "guided answers",
            samples=summary.samples,
            n_samples=summary.n,
            complete=not left_out,
        )
