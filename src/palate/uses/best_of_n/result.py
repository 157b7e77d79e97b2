"""Best of n as a result: one selection per scorer, context and measure, and its picks by row."""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import FiniteFloat

from palate.errors import UsageError
from palate.metrics.selection import BestOfCurve, OverOptimisation
from palate.records import Record
from palate.uses.downstream import Downstream, DownstreamQuality
from palate.uses.result import QuestionRow, UseResult


class Selection(Record):
    """The picks of one scorer under one context against one measure of quality."""

    scorer: str
    context: str
    oracle: bool
    models: tuple[str, ...]
    """What the scores come from: content hashes of model folders, names of served models."""
    fingerprints: tuple[str, ...]
    """Of each computation behind the scores."""
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
    notes: tuple[str, ...]


class SampleCounts(Record):
    """What was picked from."""

    n: int
    """Samples of each row."""
    content_hash: str
    samples: int
    empty: int
    cut_off: int
    repeated: int


class BestOfSummary(Record):
    """All selections on one set of samples."""

    benchmark: str
    policy: str
    samples: SampleCounts
    ks: tuple[int, ...]
    unrated: dict[str, dict[str, int]]
    """By measure, why samples have no quality."""
    selections: tuple[Selection, ...]


class BestOfRow(QuestionRow):
    """One row and what every selection's pick is worth there."""

    expected_quality: tuple[tuple[FiniteFloat, ...] | None, ...]
    """By selection, of the pick at each k; null where the row is left out."""


class BestOfResult(UseResult[BestOfSummary, BestOfRow]):
    """Best of n of one policy."""

    kind: ClassVar[str] = "best-of-n"
    content_type, row_type = BestOfSummary, BestOfRow

    @cached_property
    def expected(self) -> NDArray[np.float64]:
        """Expected quality of the picks, rows × selections × ks; NaN where a row is left out."""
        none = (np.nan,) * len(self.summary.ks)
        return np.array([[picks or none for picks in row.expected_quality] for row in self.rows])

    @property
    def is_whole(self) -> bool:
        """Whether every row has a value of each selection and size."""
        summary, rows = self.summary, self.rows
        sizes = {len(picks) for row in rows for picks in row.expected_quality if picks is not None}
        widths = {len(row.expected_quality) for row in rows}
        curve = summary.selections[0].curve
        whole = len(rows) == curve.n_questions + curve.n_left_out
        whole &= widths == {len(summary.selections)} and sizes <= {len(summary.ks)}
        return whole & (self.mirrors is not None or not any(s.contrast for s in summary.selections))

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
                "other results, or run best-of-n with a larger --ks"
            )
        if k is not None and k not in ks:
            raise UsageError(
                f"{self.where}: has no best of {k} (sizes: {', '.join(map(str, ks))}); "
                "name the folders that have it"
            )
        at = k or max((size for size in above if 2 * size <= n), default=min(above))
        named = dict.fromkeys(s.quality for s in self.summary.selections if not s.oracle)
        return [self._measure(quality, at) for quality in named]

    def _measure(self, quality: str, k: int) -> Downstream:
        summary, at = self.summary, self.summary.ks.index(k)
        listed = [
            (selection, self.expected[:, number, at])
            for number, selection in enumerate(summary.selections)
            if selection.quality == quality and not selection.oracle
        ]
        scored = {(s.scorer, s.context): (s, v) for s, v in listed if not np.isnan(v).all()}
        first = listed[0][0]
        of = DownstreamQuality(
            benchmark=summary.benchmark,
            policy=summary.policy,
            quality=quality,
            surrogate=first.surrogate,
            k=k,
            n_samples=summary.samples.n,
        )
        unscored = any(selection.unscored_reasons for selection, _ in listed)
        return self.measured(
            of,
            {name: values for name, (_, values) in scored.items()},
            {name: selection for name, (selection, _) in scored.items()},
            samples=summary.samples.content_hash,
            mirrored=first.contrast,
            complete=not (summary.unrated.get(quality) or unscored),
        )
