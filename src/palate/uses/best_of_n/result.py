"""Best of n as a result: one selection per scorer, context and measure, and its picks by row."""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from palate.errors import UsageError
from palate.metrics.selection import BestOfCurve, OverOptimisation
from palate.records import Record
from palate.uses.downstream import Downstream
from palate.uses.result import Cell, CellResult, CellSummary


class Selection(Cell):
    """The picks of one scorer under one context against one measure of quality."""

    quality: str
    surrogate: bool
    contrast: bool
    """Whether quality is a contrast, minus that for the mirrored user; values are over couples."""
    curve: BestOfCurve
    over_optimisation: OverOptimisation | None
    """Where picking stops helping; None with too few sizes to fit."""
    p_holm: tuple[float | None, ...] = ()
    """Of no gain at each k, Holm-corrected over the scorers of one measure; oracles apart."""
    unscored_reasons: dict[str, int]


class SampleCounts(Record):
    """What was picked from."""

    n: int
    """Samples of each row."""
    content_hash: str
    samples: int
    empty: int
    cut_off: int
    repeated: int


class BestOfSummary(CellSummary[Selection]):
    """All selections on one set of samples: a cell is one scorer, context and measure."""

    policy: str
    samples: SampleCounts
    ks: tuple[int, ...]
    unrated: dict[str, dict[str, int]]
    """By measure, why samples have no quality."""


class BestOfResult(CellResult[BestOfSummary]):
    """Best of n of one policy: a column is the expected quality of a selection's picks at one k."""

    kind: ClassVar[str] = "best-of-n"
    content_type = BestOfSummary

    @cached_property
    def expected(self) -> NDArray[np.float64]:
        """Expected quality of the picks, rows × selections × ks; NaN where a row is left out."""
        return self.values.reshape(len(self.rows), -1, len(self.summary.ks))

    @property
    def is_whole(self) -> bool:
        """Whether every row is there, with a value for each column."""
        curve = self.summary.cells[0].curve
        return super().is_whole and len(self.rows) == curve.n_questions + curve.n_left_out

    def downstream(self, k: int | None = None) -> list[Downstream]:
        """Return the measures of quality at k, by default the largest up to n / 2.

        Where no k from 2 up to half the samples is there, the smallest above 1.

        Raises `UsageError` for a k that is not there, or where none is above 1: the best of one is
        the same for all scorers.
        """
        ks, n = self.summary.ks, self.summary.samples.n
        above = [size for size in ks if size > 1]
        if k == 1 or not above:
            raise UsageError(
                f"{self.where}: the best of 1 is the same for every scorer; name the folders of "
                "other results, or run best-of-n with a larger -k"
            )
        if k is not None and k not in ks:
            raise UsageError(
                f"{self.where}: has no best of {k} (sizes: {', '.join(map(str, ks))}); "
                "name the folders that have it"
            )
        at = k or max((size for size in above if 2 * size <= n), default=min(above))
        named = dict.fromkeys(cell.quality for cell in self.summary.cells if not cell.oracle)
        return [self._picks(quality, at) for quality in named]

    def _picks(self, quality: str, k: int) -> Downstream:
        summary, place = self.summary, self.summary.ks.index(k)
        numbers = [
            number
            for number, cell in enumerate(summary.cells)
            if cell.quality == quality and not cell.oracle
        ]
        unscored = any(summary.cells[number].unscored_reasons for number in numbers)
        return self.measured(
            [number * len(summary.ks) + place for number in numbers],
            f"best of {k}",
            "the picks",
            k=k,
            n_samples=summary.samples.n,
            samples=summary.samples.content_hash,
            shared=False,
            complete=not (summary.unrated.get(quality) or unscored),
        )
