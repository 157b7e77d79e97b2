"""Values by row: figures over rows or couples, and what a benchmark should predict of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from palate.benchmarks import Dataset
from palate.metrics import Clusters, Estimate, clustered_mean
from palate.metrics.clusters import compact
from palate.metrics.estimates import GAIN, ROUNDING, UNIT
from palate.metrics.means import Units, level, moved_by, unbounded
from palate.records import PreferencePair, Record, normal_form
from palate.runs import VerdictRow

Doubles = NDArray[np.float64]
CellKey = tuple[str, str]
"""Scorer and context, as canonical specs."""


def question_hashes(pairs: Dataset) -> list[str]:
    """Return the hash of each row's question."""
    return [VerdictRow.hash_of(row.normal_key) for row in pairs.rows]


@dataclass(frozen=True)
class RowFigures:
    """Figures over rows: whose the rows are, and what they ask."""

    users: Sequence[str]
    questions: Sequence[str]
    seed: int = 0

    @classmethod
    def of(cls, pairs: Dataset, seed: int) -> Self:
        """Return the figures of a benchmark's rows."""
        return cls([row.user_id for row in pairs.rows], question_hashes(pairs), seed)

    def units(self, values: Doubles, mirrors: Sequence[int] | None = None) -> Units:
        """Return the rows with a value, or the couples of two, and what makes them depend."""
        return Units.of(self.users, self.questions, ~np.isnan(values), mirrors)

    def mean(self, values: Doubles, mirrors: Sequence[int] | None = None) -> Estimate:
        """Return the mean of a quality over rows, or over couples."""
        units = self.units(values, mirrors)
        return level(units.values(values), units.clusters, UNIT)

    def gain(
        self, values: Doubles, base: Doubles, mirrors: Sequence[int] | None = None
    ) -> Estimate:
        """Return how far a quality is above another, paired."""
        return self._moved(values - base, 1.0, mirrors)

    def reward_mean(self, values: Doubles) -> Estimate:
        """Return the mean of rewards, which have no bounds; no p."""
        return replace(self.reward_gain(values, np.zeros_like(values)), p=None)

    def reward_gain(self, values: Doubles, base: Doubles) -> Estimate:
        """Return how far rewards, which have no bounds, are above others."""
        moved = values - base
        return self._moved(moved, unbounded(moved))

    def _moved(
        self, moved: Doubles, width: float, mirrors: Sequence[int] | None = None
    ) -> Estimate:
        units = self.units(moved, mirrors)
        values = units.values(moved)
        return moved_by(values, units.clusters, width, self.seed) if values.size else Estimate()


class PairUnits:
    """Pairs, and their mirrored couples: users, questions and both responses make them depend.

    Both are in the order of ids, as in every run of a benchmark.
    """

    def __init__(self, pairs: Sequence[PreferencePair], couples: Sequence[tuple[int, int]]) -> None:
        """Take pairs, and the positions of the two pairs of each couple."""
        order = np.array(sorted(range(len(pairs)), key=lambda k: pairs[k].id), dtype=np.int64)
        place = np.argsort(order)
        users = [pairs[k].user_id for k in order]
        questions = _hashed(pairs[k].normal_key for k in order)
        texts = _hashed(pairs[k].chosen for k in order), _hashed(pairs[k].rejected for k in order)
        of_pairs = Clusters(Clusters.of(users).users, compact(questions)[0], texts)
        self.pairs = Units((order,), of_pairs)
        places = sorted(sorted(place[[i, j]].tolist()) for i, j in couples)
        a, b = np.array(places, dtype=np.int64).reshape(-1, 2).T
        both = Clusters.of([users[k] for k in a], [users[k] for k in b]).users
        of_couples = Clusters(both, compact(questions[a])[0], tuple(side[a] for side in texts))
        self.couples = Units((order[a], order[b]), of_couples)

    @property
    def counted(self) -> Units:
        """The couples, where every pair stands in one; else the pairs."""
        mirrored = 0 < len(self.pairs.clusters) == 2 * len(self.couples.clusters)
        return self.couples if mirrored else self.pairs

    def complete(self, scored: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return the scored pairs, where all stand in couples those of which both are."""
        if self.counted is self.pairs:
            return scored
        a, b = self.couples.rows
        both = np.zeros_like(scored)
        both[a] = both[b] = scored[a] & scored[b]
        return both

    def accuracy(self, values: Doubles) -> Estimate:
        """Return the accuracy of pairs' values, or of couples' where every pair has its mirror.

        NaN is the value of a pair that does not count.
        """
        units = self.counted
        return clustered_mean(units.values(values), units.clusters)

    def gain(self, values: Doubles, base: Doubles) -> Estimate:
        """Return the paired difference of two columns of values."""
        units = self.counted
        return clustered_mean(units.values(values - base), units.clusters, null=0.0, bounds=GAIN)


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
        values = self._units.values
        return frozenset(key for key, v in self.values.items() if np.ptp(values(v)) <= ROUNDING)

    def table(self, scorers: Sequence[CellKey]) -> ScorerTable:
        """Return the values of some scorers over rows, or couples, with their clusters."""
        values = np.stack([self.values[name] for name in scorers], axis=1)
        return ScorerTable(tuple(scorers), self._units.values(values), self._units.clusters)

    @cached_property
    def _units(self) -> Units:
        return self.figures.units(next(iter(self.values.values())), self.mirrors)


def _hashed(texts: Iterable[str]) -> NDArray[np.uint64]:
    hashes = [int(VerdictRow.hash_of(normal_form(text)), 16) for text in texts]
    return np.array(hashes, dtype=np.uint64)
