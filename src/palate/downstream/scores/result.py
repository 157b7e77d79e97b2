"""What one scorer under one context makes of a policy's samples, as a result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from palate.records import Record
from palate.runs import Result, TextHash, read_content, read_rows


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


@dataclass(frozen=True)
class SampleScores(Result):
    """The scores of all samples by one scorer under one context."""

    kind: ClassVar[str] = "scores"
    content_type, row_type = ScoresSummary, ScoreRow
    summary: ScoresSummary
    rows: tuple[ScoreRow, ...]
    folder: Path | None = None

    @cached_property
    def values(self) -> NDArray[np.float64]:
        """Scores, rows × samples; NaN where unscored."""
        return np.array([row.scores for row in self.rows], dtype=np.float64)

    @staticmethod
    def count(rows: tuple[ScoreRow, ...]) -> dict[str, int]:
        """Return how often each reason left a sample unscored."""
        return dict(Counter(reason for row in rows for reason in row.reasons if reason))

    def content(self) -> ScoresSummary:
        """Return the summary."""
        return self.summary

    def lines(self) -> Iterator[str]:
        """Yield every row as one line of JSON."""
        return (row.model_dump_json() for row in self.rows)

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read finished scores; raises `RunError` where there are none."""
        summary = read_content(folder, cls.kind, ScoresSummary)
        return cls(summary, read_rows(folder, ScoreRow), folder)
