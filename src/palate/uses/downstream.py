"""Values that a benchmark should predict: what each scorer gives users, row by row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from palate.errors import ComparisonError
from palate.metrics.clusters import Clusters
from palate.metrics.estimates import ROUNDING
from palate.metrics.selection.units import Units
from palate.records import Record
from palate.uses.units import Doubles, RowFigures

CellKey = tuple[str, str]
"""Scorer and context, as canonical specs."""


class DownstreamQuality(Record):
    """What a benchmark should predict: quality of an answer, or policy accuracy."""

    benchmark: str
    """That the answers are to."""
    policy: str
    quality: str
    surrogate: bool
    answers: str
    """Which answers have it, such as `best of 4`; empty where the quality is not of answers."""
    rated: str
    """What has the quality, as a column names it, such as `the picks`."""
    k: int | None = None
    """The best of so many, where scorers pick."""
    n_samples: int | None = None
    """Of each question."""

    @property
    def name(self) -> str:
        """What it is called in a line."""
        return f"{self.answers}, {self.quality}" if self.answers else self.quality


class ScorerTable(NamedTuple):
    """Values of several scorers over the same units."""

    scorers: tuple[CellKey, ...]
    values: Doubles
    """Of each unit under each scorer, shape (units, scorers)."""
    clusters: Clusters
    """Of the units."""

    @property
    def figures(self) -> dict[CellKey, float]:
        """Each scorer's mean."""
        return dict(zip(self.scorers, self.values.mean(axis=0).tolist(), strict=True))


class Origin(NamedTuple):
    """What made a scorer's scores."""

    models: tuple[str, ...]
    fingerprints: tuple[str, ...]
    where: str


@dataclass(frozen=True, eq=False)
class Downstream:
    """Quality by scorer, of picked, guided or trained answers, or policy accuracy."""

    kind: str
    """Of the result that says so; it is its command too."""
    of: DownstreamQuality
    samples: str
    """Content hash of the answers that were picked from; of guided ones, of the unguided; of policy
    accuracy, of what was asked; of trained ones, of all that their training shares."""
    values: Mapping[CellKey, Doubles]
    """Quality of each row's pick or guided answers; all have the same rows, the others are NaN."""
    rows: Mapping[str, str]
    """Id of each row, in order, and the hash of what it asks and between what."""
    figures: RowFigures
    """Whose the rows are, and what they ask: rows of one question share answers."""
    mirrors: Sequence[int] | None = None
    """Of a contrast, the number of each row's mirrored row: its units are couples."""
    origins: Mapping[CellKey, Origin] = field(default_factory=dict)
    """What made each scorer's scores, where it is known."""
    complete: bool = True
    """No answer was left without score or quality."""

    @cached_property
    def constant(self) -> frozenset[CellKey]:
        """Who has the same value in every row, or couple, as the blind have in a contrast."""
        units = self._units()
        return frozenset(
            name for name, own in self.values.items() if np.ptp(units.values(own)) <= ROUNDING
        )

    def table(self, scorers: Sequence[CellKey]) -> ScorerTable:
        """Return the values of some scorers over rows, or couples, with their clusters."""
        units = self._units()
        values = np.stack([self.values[name] for name in scorers], axis=1)
        return ScorerTable(tuple(scorers), units.values(values), units.clusters)

    def _units(self) -> Units:
        return self.figures.units(next(iter(self.values.values())), self.mirrors)


def rows_of_all(values: Doubles, where: str) -> NDArray[np.bool_]:
    """Return the rows with a value of every scorer; raises `ComparisonError` where there is none.

    `values` is rows × scorers, `where` what the result is called.
    """
    shared = np.asarray(~np.isnan(values).any(axis=1))
    if not shared.any():
        raise ComparisonError(
            f"validity: {where} has no row with a value of every scorer; run it again without the "
            "scorer or context that has the fewest"
        )
    return shared
