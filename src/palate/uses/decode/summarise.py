"""From guided answers to cells: quality, gains, and whether guidance acted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from palate.answers import Samples
from palate.answers.scores import SampleScores
from palate.benchmarks import Dataset
from palate.guidance.methods import Method
from palate.metrics.arrays import row_means
from palate.quality import SampleQuality
from palate.runs import with_holm
from palate.uses.decode.cells import PlannedGuide
from palate.uses.decode.describe import divergences, text_facts
from palate.uses.decode.result import (
    DecodeResult,
    DecodeSummary,
    GuidedCell,
    GuidedQuality,
    Guiding,
    UnguidedQuality,
)
from palate.uses.result import ValueColumn, ValueTable
from palate.uses.units import Doubles, RowFigures


@dataclass(frozen=True, eq=False)
class Decoded:
    """What one cell has written, rated and scored."""

    cell: PlannedGuide
    method: Method
    samples: Samples
    qualities: Sequence[SampleQuality]
    scores: SampleScores
    rewards_before: Doubles
    """The guide's rewards of unguided answers, rows × N."""
    rewards: Doubles

    @property
    def values(self) -> list[Doubles]:
        """Of each measure, every row's mean quality; NaN where the row is left out."""
        there = self.cell.there[:, None]
        return [row_means(np.where(there, rated.values, np.nan)) for rated in self.qualities]


def result_of(
    pairs: Dataset,
    unguided: Samples,
    base: Sequence[SampleQuality],
    decoded: Sequence[Decoded],
    seed: int,
) -> DecodeResult:
    """Return all cells with their figures."""
    rows = RowFigures.of(pairs, seed)
    plain = [row_means(rated.values) for rated in base]
    values = [work.values for work in decoded]
    cells = _corrected(
        [
            _cell(work, values[k], plain, _stranger_values(work, decoded, values), rows)
            for k, work in enumerate(decoded)
        ]
    )
    table = ValueTable(pairs)
    for number, cell in enumerate([None, *cells]):
        for rated, means in zip(base, values[number - 1] if cell else plain, strict=True):
            table.add(
                ValueColumn(
                    cell=number - 1 if cell else None,
                    measure=rated.quality,
                    setting=cell.method_name if cell else "no guide",
                    surrogate=rated.surrogate,
                    couples=rated.mirrors is not None,
                ),
                means,
            )
    summary = DecodeSummary(
        benchmark=pairs.name,
        policy=unguided.policy,
        n=unguided.n,
        samples=unguided.content,
        text=text_facts(unguided),
        qualities=tuple(
            UnguidedQuality(
                quality=rated.quality,
                surrogate=rated.surrogate,
                contrast=rated.mirrors is not None,
                mean=rows.mean(means, rated.mirrors),
                unrated=rated.reasons,
            )
            for rated, means in zip(base, plain, strict=True)
        ),
        cells=tuple(cells),
        columns=tuple(table.columns),
    )
    return DecodeResult(summary, table.rows())


def _cell(
    work: Decoded,
    values: Sequence[Doubles],
    plain: Sequence[Doubles],
    stranger: Sequence[Doubles] | None,
    rows: RowFigures,
) -> GuidedCell:
    there = work.cell.there
    divergence, bound, tokens = divergences(work.method, work.samples, there)
    reward = rows.reward_gain(row_means(work.rewards), row_means(work.rewards_before))
    return GuidedCell.of(
        work.scores.summary,
        method=work.method.spec,
        weight=work.method.weight,
        samples=work.samples.content,
        left_out=work.cell.left_out,
        guiding=Guiding(
            reward=reward,
            divergence=divergence,
            divergence_bound=bound,
            text=text_facts(work.samples, there),
            tokens=tokens,
        ),
        qualities=tuple(
            GuidedQuality(
                quality=rated.quality,
                surrogate=rated.surrogate,
                contrast=rated.mirrors is not None,
                mean=rows.mean(means, rated.mirrors),
                gain=rows.gain(means, plain[k], rated.mirrors),
                identity_gain=None
                if stranger is None
                else rows.gain(means, stranger[k], rated.mirrors),
                unrated=rated.reasons,
            )
            for k, (rated, means) in enumerate(zip(work.qualities, values, strict=True))
        ),
    )


def _stranger_values(
    work: Decoded, decoded: Sequence[Decoded], values: Sequence[Sequence[Doubles]]
) -> Sequence[Doubles] | None:
    alike = [
        k
        for k, guided in enumerate(decoded)
        if (guided.method.spec, guided.method.weight) == (work.method.spec, work.method.weight)
    ]
    strangers = work.cell.key.strangers(decoded[k].cell.key for k in alike)
    return next((values[k] for k in alike if decoded[k].cell.key in strangers[:1]), None)


def _corrected(cells: Sequence[GuidedCell]) -> list[GuidedCell]:
    """Put Holm's p to each gain; the cells of one measure are one family."""
    listed = [(k, rated) for k, cell in enumerate(cells) for rated in cell.qualities]
    families = [None if cells[k].oracle else rated.quality for k, rated in listed]
    every = with_holm(
        [rated for _, rated in listed], [rated.gain.p for _, rated in listed], families
    )
    identity = [it.identity_gain.p if it.identity_gain is not None else None for it in every]
    corrected = iter(with_holm(every, identity, families, into="identity_p_holm"))
    return [
        cell.model_copy(update={"qualities": tuple(islice(corrected, len(cell.qualities)))})
        for cell in cells
    ]
