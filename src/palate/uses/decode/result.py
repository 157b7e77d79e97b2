"""Guided decoding as a result: a cell per scorer, context, method and weight, and its rows."""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import FiniteFloat

from palate.metrics import Estimate
from palate.records import Record
from palate.uses.downstream import Downstream, DownstreamQuality, rows_of_all
from palate.uses.result import QuestionRow, UseResult


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


class GuidedCell(Record):
    """One scorer under one context that guides by one method at one weight."""

    scorer: str
    context: str
    oracle: bool
    method: str
    weight: float | None
    models: tuple[str, ...]
    """What the guide's rewards come from."""
    fingerprints: tuple[str, ...]
    samples: str
    """Content hash of the guided answers."""
    left_out: dict[str, int]
    """Why rows are not guided."""
    guiding: Guiding
    qualities: tuple[GuidedQuality, ...]
    notes: tuple[str, ...]

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


class DecodeSummary(Record):
    """All cells that guide one policy."""

    benchmark: str
    policy: str
    n: int
    """Answers to a row."""
    samples: str
    """Content hash of the unguided answers."""
    text: TextFacts
    """Of the unguided answers."""
    qualities: tuple[UnguidedQuality, ...]
    cells: tuple[GuidedCell, ...]


class DecodeRow(QuestionRow):
    """One row and what its answers are worth."""

    unguided: tuple[FiniteFloat | None, ...]
    """By measure, the mean quality of the policy's own answers."""
    guided: tuple[tuple[FiniteFloat | None, ...], ...]
    """By cell and measure; null where the row is left out, or nothing was rated."""


class DecodeResult(UseResult[DecodeSummary, DecodeRow]):
    """Guided decoding of one policy."""

    kind: ClassVar[str] = "decode"
    content_type, row_type = DecodeSummary, DecodeRow

    @cached_property
    def guided(self) -> NDArray[np.float64]:
        """Mean quality, rows × cells × measures; NaN where there is none."""
        return np.array([row.guided for row in self.rows], dtype=np.float64)

    @property
    def is_whole(self) -> bool:
        """Whether every row has a value of each cell and measure."""
        shape = len(self.summary.cells), len(self.summary.qualities)
        shapes = {(len(row.guided), *{len(of_cell) for of_cell in row.guided}) for row in self.rows}
        return shapes == {shape}

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

    def _measure(self, method: str, numbers: list[int], m: int) -> Downstream:
        summary, quality = self.summary, self.summary.qualities[m]
        cells = {
            (cell.scorer, cell.context): cell
            for cell in (summary.cells[number] for number in numbers)
        }
        values = self.guided[:, numbers, m]
        values = np.where(rows_of_all(values, self.where)[:, None], values, np.nan)
        of = DownstreamQuality(
            benchmark=summary.benchmark,
            policy=summary.policy,
            quality=quality.quality,
            surrogate=quality.surrogate,
            k=1,
            n_samples=summary.n,
            guided_by=method,
        )
        left_out = any(it.left_out or it.qualities[m].unrated for it in cells.values())
        return self.measured(
            of,
            dict(zip(cells, values.T, strict=True)),
            cells,
            samples=summary.samples,
            mirrored=quality.contrast,
            complete=not left_out,
        )
