"""Guided decoding as a result: quality, gains, what answers look like, whether guidance acted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import ClassVar

import numpy as np

from palate.answers import Samples
from palate.answers.samples import Sample
from palate.answers.scores import SampleScores
from palate.benchmarks import Dataset
from palate.guidance.methods import Method
from palate.metrics import Estimate
from palate.quality import SampleQuality
from palate.records import Record
from palate.runs import with_holm
from palate.uses.guides import PlannedGuide
from palate.uses.result import Cell, CellResult, CellSummary, QualityLevel, RatedQuality, ValueTable
from palate.uses.units import Doubles, Downstream, RowFigures
from palate.words import count_words, runs, split_words


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


class GuidedQuality(RatedQuality):
    """One measure of the quality of guided answers."""

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


class DecodeSummary(CellSummary[GuidedCell]):
    """All cells that guide one policy."""

    policy: str
    n: int
    """Answers to a row."""
    samples: str
    """Content hash of the unguided answers."""
    text: TextFacts
    """Of the unguided answers."""
    qualities: tuple[QualityLevel, ...]
    """Of the unguided answers."""


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
        summary, of_decoding = self.summary, []
        measures = [rated.quality for rated in summary.qualities]
        for (quality, method), numbers in self.ranked().items():
            m = measures.index(quality)
            cells = self.cells_of(numbers)
            left_out = any(cell.left_out or cell.qualities[m].unrated for cell in cells)
            of_decoding.append(
                self.measured(
                    numbers,
                    f"guided by {method}",
                    "guided answers",
                    samples=summary.samples,
                    n_samples=summary.n,
                    complete=not left_out,
                )
            )
        return of_decoding


@dataclass(frozen=True, eq=False)
class Decoded:
    """What one cell has written, rated and scored."""

    cell: PlannedGuide
    method: Method
    samples: Samples
    qualities: Sequence[SampleQuality]
    scores: SampleScores
    rewards_before: Doubles
    """The guide's mean reward of each row's unguided answers."""
    rewards: Doubles
    """Of its guided answers."""


def result_of(
    pairs: Dataset,
    unguided: Samples,
    base: Sequence[SampleQuality],
    decoded: Sequence[Decoded],
    seed: int,
) -> DecodeResult:
    """Return all cells with their figures."""
    rows = RowFigures.of(pairs, seed)
    cells = _corrected([_cell(guided, base, decoded, rows) for guided in decoded])
    table = ValueTable(pairs)
    for rated in base:
        table.rate(rated, None, "no guide")
    for number, (cell, guided) in enumerate(zip(cells, decoded, strict=True)):
        for rated in guided.qualities:
            table.rate(rated, number, cell.method_name)
    summary = DecodeSummary(
        benchmark=pairs.name,
        policy=unguided.policy,
        n=unguided.n,
        samples=unguided.content,
        text=text_facts([answer for of_row in unguided.of_row for answer in of_row]),
        qualities=tuple(QualityLevel.of(rated, rows) for rated in base),
        cells=tuple(cells),
        columns=tuple(table.columns),
    )
    return DecodeResult(summary, table.rows())


def _cell(
    work: Decoded, base: Sequence[SampleQuality], decoded: Sequence[Decoded], rows: RowFigures
) -> GuidedCell:
    of_rows = zip(work.samples.of_row, work.cell.guided, strict=True)
    answers = [answer for of_row, is_guided in of_rows if is_guided for answer in of_row]
    known = [answer.guidance for answer in answers if answer.guidance is not None]
    how = work.method.spec, work.method.weight
    alike = {
        other.cell.key: other
        for other in decoded
        if (other.method.spec, other.method.weight) == how
    }
    stranger = next((alike[key] for key in work.cell.key.strangers(alike)[:1]), None)
    qualities = []
    for k, rated in enumerate(work.qualities):
        gain = rows.gain(rated.means, base[k].means, rated.mirrors)
        identity = None
        if stranger is not None:
            identity = rows.gain(rated.means, stranger.qualities[k].means, rated.mirrors)
        qualities.append(GuidedQuality.of(rated, rows, gain=gain, identity_gain=identity))
    return GuidedCell.of(
        work.scores.summary,
        method=work.method.spec,
        weight=work.method.weight,
        samples=work.samples.content,
        left_out=work.cell.left_out,
        guiding=Guiding(
            reward=rows.reward_gain(work.rewards, work.rewards_before),
            divergence=_mean([guidance.divergence for guidance in known]),
            divergence_bound=_mean([work.method.bound(guidance.written) for guidance in known]),
            text=text_facts(answers),
            tokens={m: float(np.mean([of.tokens[m] for of in known])) for m in ("policy", "guide")},
        ),
        qualities=tuple(qualities),
    )


def _corrected(cells: Sequence[GuidedCell]) -> list[GuidedCell]:
    """Put Holm's p to each gain; the cells of one measure are one family."""
    listed = [(k, rated) for k, cell in enumerate(cells) for rated in cell.qualities]
    families = [None if cells[k].oracle else rated.quality for k, rated in listed]
    every = with_holm(
        [rated for _, rated in listed], [rated.gain.p for _, rated in listed], families
    )
    gains = [rated.identity_gain for rated in every]
    identity = [None if gain is None else gain.p for gain in gains]
    corrected = iter(with_holm(every, identity, families, into="identity_p_holm"))
    return [
        cell.model_copy(update={"qualities": tuple(islice(corrected, len(cell.qualities)))})
        for cell in cells
    ]


def text_facts(answers: Sequence[Sample]) -> TextFacts:
    """Return what the answers look like."""
    texts = [answer.text for answer in answers]
    return TextFacts(
        words=float(np.mean([*map(count_words, texts)])),
        cut_off=float(np.mean([answer.cut_off for answer in answers])),
        empty=float(np.mean([not text.strip() for text in texts])),
        distinct_bigrams=_mean([*map(distinct_bigrams, texts)]),
    )


def distinct_bigrams(text: str) -> float | None:
    """Return the share of an answer's runs of two words that are different; None without a run.

    >>> distinct_bigrams("tea and tea and tea"), distinct_bigrams("Tea.")
    (0.5, None)
    """
    pairs = runs(split_words(text.lower()), 2)
    return len(set(pairs)) / len(pairs) if pairs else None


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None
