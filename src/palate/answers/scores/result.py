"""The scores that one scorer under one context gives a policy's samples, as a result."""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from palate.records import Record
from palate.runs import RecordResult, TextHash


class ScoresSummary(Record):
    """What was scored, by what, and what has no score."""

    benchmark: str
    scorer: str
    context: str
    oracle: bool
    models: tuple[str, ...]
    """What the numbers come from: content hashes of model folders, names of served models."""
    fingerprints: tuple[str, ...]
    """Of each computation: all that its numbers depend on beside the rows."""
    policy: str
    samples: str
    """Content hash of the samples."""
    n_rows: int
    n_samples: int
    """Of each row."""
    unscored_reasons: dict[str, int]
    """How often each reason left a sample unscored."""
    notes: tuple[str, ...]


class ScoreRow(Record):
    """The scores of one row's samples."""

    id: str
    content_hash: str
    """Of question and responses, as in a run."""
    question_hash: TextHash
    user: str
    sample_hashes: tuple[TextHash, ...]
    scores: tuple[float | None, ...]
    """An empty answer is below all others of its row that have a score."""
    reasons: tuple[str | None, ...]
    """Why a sample has no score."""


class SampleScores(RecordResult[ScoresSummary, ScoreRow]):
    """The scores of all samples by one scorer under one context."""

    kind: ClassVar[str] = "scores"
    content_type, row_type = ScoresSummary, ScoreRow

    @cached_property
    def values(self) -> NDArray[np.float64]:
        """Scores, rows × samples; NaN where unscored."""
        return np.array([row.scores for row in self.rows], dtype=np.float64)
