"""Contestants that a benchmark and a measure of quality both know, and how noisy both are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from palate.errors import ComparisonError
from palate.metrics.estimates import ROUNDING
from palate.metrics.ranks import Replicates
from palate.metrics.ranks.over_items import shared_part
from palate.runs import Run
from palate.validity.downstream_file import Downstream
from palate.validity.figures import (
    Contestant,
    Doubles,
    Figures,
    Held,
    Units,
    benchmark_units,
    held_together,
    same_as_none,
)

LEAST_SHARED = 0.5


class Side(NamedTuple):
    """One figure of one benchmark, before it is known who has downstream results."""

    benchmark: str
    metric: str
    units: Mapping[Contestant, Units]
    same: Mapping[Contestant, Contestant]
    """Contestants that are another one of these again."""


class Match(NamedTuple):
    """One figure of a benchmark beside one measure of quality, for contestants that have both."""

    benchmark: str
    metric: str
    below: Downstream
    held: Held
    unmoved: tuple[Contestant, ...] = ()
    """Left out: both of their figures are the same in every unit."""

    @property
    def contestants(self) -> list[Contestant]:
        """Those with both, in the order of the runs."""
        return list(self.held.figures)


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


def _still(units: Units) -> bool:
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


def replicates(matches: Sequence[Match], common: Sequence[Contestant]) -> list[Replicates]:
    """Return, for each match, both figures of these contestants without one user at a time.

    All matches are of one measure. The users of all are one list, whatever their benchmarks are
    called: a user who is left out is left out everywhere. Downstream noise is widened by that of
    questions.
    """
    below = matches[0].below
    quality = below.figures
    users = sorted(
        {*_users(quality, common), *(u for m in matches for u in _users(m.held.figures, common))}
    )
    if len(users) < 2:
        return [Replicates(None, None) for _ in matches]
    level = np.array([quality[one].value for one in common])
    moved = _without(quality, common, users) - level
    shared = shared_part(moved)
    spread = below.spread(common)
    if np.isnan(spread).any():
        return [Replicates(None, None) for _ in matches]
    widened = level + shared + (moved - shared) * spread
    return [
        Replicates(_without(m.held.figures, common, users), widened, same_users=True)
        for m in matches
    ]


def _users(figures: Mapping[Contestant, Figures], common: Sequence[Contestant]) -> Iterator[str]:
    return (user for one in common for user in figures[one].without)


def _without(
    figures: Mapping[Contestant, Figures], common: Sequence[Contestant], users: Sequence[str]
) -> Doubles:
    return np.array(
        [[figures[one].without.get(user, figures[one].value) for one in common] for user in users]
    )
