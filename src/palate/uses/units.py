"""Rows and mirrored couples paired: figures over them, with intervals by user and question."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from palate.benchmarks import Dataset
from palate.metrics import Clusters, Estimate, accuracy, clustered_mean, mirrored_values
from palate.metrics.clusters import compact
from palate.metrics.estimates import GAIN, UNIT
from palate.metrics.selection.curves import UNBOUNDED_BY
from palate.metrics.selection.figures import level, moved_by
from palate.metrics.selection.units import Units
from palate.records import PreferencePair
from palate.runs import VerdictRow

Doubles = NDArray[np.float64]


def question_hashes(pairs: Dataset) -> list[str]:
    """Return the hash of each row's question."""
    return [VerdictRow.hash_of(row.key) for row in pairs.rows]


@dataclass(frozen=True)
class RowFigures:
    """Whose the rows are, and what they ask."""

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
        known = moved[~np.isnan(moved)]
        largest = float(np.abs(known).max()) if known.size else 0.0
        return self._moved(moved, UNBOUNDED_BY * max(1.0, largest), None)

    def _moved(self, moved: Doubles, width: float, mirrors: Sequence[int] | None) -> Estimate:
        units = self.units(moved, mirrors)
        values = units.values(moved)
        return moved_by(values, units.clusters, width, self.seed) if values.size else Estimate()


class PairUnits:
    """Pairs and their mirrored couples, in the order of ids, and what makes them depend.

    Users, questions and the two responses of a pair, as in every run of a benchmark.
    """

    def __init__(self, pairs: Sequence[PreferencePair], couples: Sequence[tuple[int, int]]) -> None:
        """Take pairs, and the positions of the two pairs of each couple."""
        order = sorted(range(len(pairs)), key=lambda k: pairs[k].id)
        place = np.argsort(order)
        ordered = [pairs[k] for k in order]
        users = [pair.user_id for pair in ordered]
        questions = _hashed(pair.key for pair in ordered)
        texts = (_hashed(pair.chosen for pair in ordered), _hashed(p.rejected for p in ordered))
        self.order = np.array(order, dtype=np.int64)
        """Of each place, the position of its pair."""
        self.clusters = Clusters(Clusters.of(users).users, compact(questions)[0], texts)
        self.couples = np.array(
            sorted(sorted(place[[i, j]].tolist()) for i, j in couples), dtype=np.int64
        ).reshape(-1, 2)
        """Places of the two pairs of each couple."""
        a, b = self.couples.T
        of_users = Clusters.of([users[k] for k in a], [users[k] for k in b]).users
        self.couple_clusters = Clusters(
            of_users, compact(questions[a])[0], tuple(side[a] for side in texts)
        )

    @property
    def mirrored(self) -> bool:
        """True where every pair stands in a couple."""
        return self.couples.size > 0 and self.couples.size == self.order.size

    def complete(self, scored: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return the scored pairs, where all stand in couples those of which both are."""
        if not self.mirrored:
            return scored
        both = np.zeros_like(scored)
        couples = self.order[self.couples]
        both[couples] = np.all(scored[couples], axis=1, keepdims=True)
        return both

    def accuracy(self, values: Doubles) -> Estimate:
        """Return the accuracy of pairs' values, or of couples' where every pair has its mirror.

        NaN is the value of a pair that does not count.
        """
        ordered = values[self.order]
        if not self.mirrored:
            return accuracy(ordered, self.clusters)
        a, b = self.couples.T
        return clustered_mean(mirrored_values(ordered[a], ordered[b]), self.couple_clusters)

    def gain(self, values: Doubles, base: Doubles) -> Estimate:
        """Return the paired difference of two columns of values."""
        apart = (values - base)[self.order]
        if not self.mirrored:
            return clustered_mean(apart, self.clusters, null=0.0, bounds=GAIN)
        a, b = self.couples.T
        both = (apart[a] + apart[b]) / 2
        return clustered_mean(both, self.couple_clusters, null=0.0, bounds=GAIN)


def _hashed(texts: Iterable[str]) -> NDArray[np.uint64]:
    return np.array([int(VerdictRow.hash_of(text), 16) for text in texts], dtype=np.uint64)
