"""Contestants that a benchmark and a measure of quality both know."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from palate.errors import ComparisonError
from palate.metrics.estimates import ROUNDING
from palate.runs import Run
from palate.validity.downstream_file import Downstream
from palate.validity.figures import (
    AlignedMetric,
    Contestant,
    UnitValues,
    benchmark_units,
    held_together,
    same_as_none,
)

LEAST = 3
"""Scorers that make a ranking."""
LEAST_SHARED = 0.5


class Side(NamedTuple):
    """One figure of one benchmark, before it is known who has downstream results."""

    benchmark: str
    metric: str
    units: Mapping[Contestant, UnitValues]
    same: Mapping[Contestant, Contestant]
    """Contestants that are another one of these again."""


class Match(NamedTuple):
    """One figure of a benchmark beside one measure of quality, for contestants that have both."""

    benchmark: str
    metric: str
    below: Downstream
    aligned: AlignedMetric
    unmoved: tuple[Contestant, ...] = ()
    """Left out: both of their figures are the same in every unit."""

    @property
    def contestants(self) -> tuple[Contestant, ...]:
        """Those with both, in the order of the runs."""
        return self.aligned.table.contestants


def sides_of(runs: Mapping[str, Sequence[Run]], metrics: Sequence[str]) -> list[Side]:
    """Return every figure of every benchmark; raises as `benchmark_units`."""
    return [
        Side(name, metric, benchmark_units(own, metric), same_as_none(own))
        for name, own in runs.items()
        for metric in metrics
    ]


def match(side: Side, below: Downstream) -> Match | None:
    """Hold the contestants with downstream results to common rows; None where there are none.

    Every contestant counts once, under a name that both sides know. Whom no user moves in either
    figure is left out: who is blind to the user is at ½ on mirrored couples and at ½ in a contrast
    by their law, which is no agreement of two measurements. Raises as `held_together`.
    """
    known = dict(side.units)
    for twin, first in side.same.items():
        if first in below.values and twin in known:
            known.setdefault(first, known[twin])
            del known[twin]
    both = {one: own for one, own in known.items() if one in below.values}
    if not both:
        return None
    unmoved = tuple(one for one, own in both.items() if one in below.still and _still(own))
    if len(unmoved) == len(both):
        unmoved = ()
    kept = {one: own for one, own in both.items() if one not in unmoved}
    return Match(side.benchmark, side.metric, below, held_together(kept, side.metric), unmoved)


def _still(units: UnitValues) -> bool:
    return bool(np.nanmax(units.values) - np.nanmin(units.values) <= ROUNDING)


def refuse_other_questions(runs: Sequence[Run], below: Downstream) -> None:
    """Raise `ComparisonError` where a benchmark of this name ran on other rows than the answers."""
    for run in runs:
        keys = set(run.verdicts.keys)
        shared = len(keys & set(below.rows.items()))
        if shared < LEAST_SHARED * min(len(keys), len(below.rows)):
            raise ComparisonError(
                f"validity: {run.summary.scorer} ran on {len(keys):,} rows of "
                f"{below.benchmark}, of which the downstream results have {shared:,}; they are of "
                "other questions"
            )


def by_the_models_that_picked(runs: Sequence[Run], downstream: Sequence[Downstream]) -> list[Run]:
    """Return the runs without those that another model made under a contestant's name.

    Raises `ComparisonError` where a contestant has no other run: its folder changed between the two
    commands. Who does not say what the model was passes.
    """
    picked = {one: set(models) for below in downstream for one, models in below.models.items()}

    def another(run: Run) -> bool:
        models = picked.get((run.summary.scorer, run.summary.context))
        return bool(models and run.summary.models) and models != set(run.summary.models)

    found = [run for run in runs if not another(run)]
    there = {(r.summary.benchmark, r.summary.scorer, r.summary.context) for r in found}
    for run in filter(another, runs):
        told = run.summary
        if (told.benchmark, told.scorer, told.context) not in there:
            raise ComparisonError(
                f"validity: {told.scorer} was another model when it ran on {told.benchmark} than "
                "when it picked; run the older of the two again"
            )
    return found
