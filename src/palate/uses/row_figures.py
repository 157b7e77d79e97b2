"""Figures over rows or mirrored couples, clustered by user and question."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from palate.metrics import Estimate
from palate.metrics.estimates import UNIT
from palate.metrics.selection.curves import UNBOUNDED_BY
from palate.metrics.selection.figures import level, moved_by
from palate.metrics.selection.units import Units

Doubles = NDArray[np.float64]


@dataclass(frozen=True)
class RowFigures:
    """Whose the rows are, and what they ask."""

    users: Sequence[str]
    questions: Sequence[str]
    seed: int = 0

    def mean(self, values: Doubles, mirrors: Sequence[int] | None = None) -> Estimate:
        """Return the mean of a quality over rows, or over couples."""
        units = self._units(values, mirrors)
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
        units = self._units(moved, mirrors)
        values = units.values(moved)
        return moved_by(values, units.clusters, width, self.seed) if values.size else Estimate()

    def _units(self, values: Doubles, mirrors: Sequence[int] | None) -> Units:
        return Units.of(self.users, self.questions, ~np.isnan(values), mirrors)
