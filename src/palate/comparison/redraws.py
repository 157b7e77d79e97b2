"""Whether a corrected test would come out the same, were its verdicts computed once more.

Every run with noise is drawn 1,000 times as `metrics.noise` says, all tests of a table are computed
anew in each draw and corrected together, and a test survives where it has the same result in at
least 960.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from palate import metrics
from palate.comparison.paired import BY_USER, method_of
from palate.metrics.means import Units
from palate.metrics.noise import NoisyVerdicts, blocks
from palate.metrics.paired import redrawn_holm, redrawn_sign_flips, redrawn_tests
from palate.records.arguments import grouped
from palate.runs import Gain, Run, Test, Verdicts
from palate.seeding import rng

LEVEL = 0.05
REDRAWS, HOLDS = 1000, 0.96

Doubles = NDArray[np.float64]
T = TypeVar("T", Gain, Test)


def is_shown(test: Gain | Test) -> bool:
    """Tell whether a corrected test is below 5 % and would be so again."""
    return test.p_holm is not None and test.p_holm < LEVEL and not is_noise(test)


def is_noise(test: Gain | Test) -> bool:
    """Tell whether a test would too often have another result, computed once more."""
    return test.survival is not None and test.survival < HOLDS


@dataclass(frozen=True, eq=False)
class NoisySide:
    """Verdicts of a run, some rows or all, sorted by id, with their noise where there is any."""

    run: Run
    verdicts: Verdicts
    noise: NoisyVerdicts | None

    @classmethod
    def of(cls, run: Run, verdicts: Verdicts) -> NoisySide:
        """Sort the rows, so that what is drawn for one does not depend on the file's order."""
        ordered = verdicts.by_id()
        return cls(run, ordered, run.noisy(ordered))

    def drawn(self, block: int, draws: int) -> Doubles:
        """Return values, shape (draws, rows), or (1, rows) of a run without noise."""
        if self.noise is None:
            return self.verdicts.values[None]
        return self.noise.drawn(rng("redraw", *self.run.cell, block), draws)


@dataclass(frozen=True, eq=False)
class Contrast:
    """A test of two runs: what it gave, and the family that it is corrected with."""

    first: NoisySide
    second: NoisySide
    family: Hashable | None
    """None of what is not corrected."""
    test: Gain | Test
    own_only: bool = False
    """Whether rows without an own part are left out."""

    @property
    def at_stake(self) -> bool:
        """Whether there is a result that noise could turn."""
        p = self.test.p_holm
        noisy = self.first.noise is not None or self.second.noise is not None
        return noisy and p is not None and p < LEVEL

    @cached_property
    def _units(self) -> Units:
        return self.first.verdicts.units(self.second.verdicts)

    @cached_property
    def _clusters(self) -> metrics.Clusters:
        return self._units.clusters.take(self._scored)

    @cached_property
    def _scored(self) -> NDArray[np.bool_]:
        values = self._differences(self.first.verdicts.values[None], self.second.verdicts.values)
        return np.asarray(~np.isnan(values[0]))

    def _differences(self, first: Doubles, second: Doubles) -> Doubles:
        both = first - second
        if self.own_only:
            both = np.where(self.first.verdicts.own_words > 0, both, np.nan)
        first_rows, *second_rows = self._units.rows
        return (both[:, first_rows] + both[:, second_rows[0]]) / 2 if second_rows else both

    def tested(self, first: Doubles, second: Doubles) -> tuple[Doubles, Doubles]:
        """Return the difference and its p of each draw."""
        differences = self._differences(first, second)[:, self._scored]
        if method_of(self._clusters) == BY_USER:
            return redrawn_sign_flips(differences, self._clusters.user)
        return redrawn_tests(differences, self._clusters)


def with_survival(tests: Sequence[T], contrasts: Mapping[int, Contrast]) -> list[T]:
    """Return tests with the share of redraws in which each has the same corrected result.

    `contrasts` are of these tests, by their places. A test has a share where it is below 5 % and a
    run of it has noise.
    """
    redrawn = list(tests)
    for family, places in grouped(contrasts, lambda k: contrasts[k].family).items():
        members = [contrasts[k] for k in places]
        if family is None or not any(each.at_stake for each in members):
            continue
        for k, share in zip(places, _shares(members), strict=True):
            if contrasts[k].at_stake:
                redrawn[k] = tests[k].model_copy(update={"survival": share})
    return redrawn


def _shares(members: Sequence[Contrast]) -> list[float]:
    signs = np.array([np.sign(each.test.value or 0.0) for each in members])
    same = np.zeros(len(members))
    sides = {id(side): side for each in members for side in (each.first, each.second)}
    rows = max(len(side.verdicts) for side in sides.values())
    for block, draws in enumerate(blocks(rows, REDRAWS)):
        drawn = {key: side.drawn(block, draws) for key, side in sides.items()}
        p, means = np.full((2, draws, len(members)), np.nan)
        for k, each in enumerate(members):
            if each.first.noise is None and each.second.noise is None:
                p[:, k] = np.nan if each.test.p is None else each.test.p
                means[:, k] = signs[k]
                continue
            means[:, k], p[:, k] = each.tested(drawn[id(each.first)], drawn[id(each.second)])
        same += ((redrawn_holm(p) < LEVEL) & (np.sign(means) == signs)).sum(axis=0)
    return [float(share) for share in same / REDRAWS]
