"""Best of n as a result: one selection per scorer, context and measure, and its picks by row."""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import FiniteFloat

from palate.metrics.selection import BestOfCurve, OverOptimisation
from palate.records import Record
from palate.uses.question_rows import QuestionResult, QuestionRow


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


class BestOfResult(QuestionResult[BestOfSummary, BestOfRow]):
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
