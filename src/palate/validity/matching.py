"""Scorers that a benchmark and a measure of quality both know."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from palate.errors import ComparisonError
from palate.metrics.estimates import ROUNDING
from palate.runs import SUMMARY, Run, read_manifest
from palate.uses import CellKey, Downstream, Origin, ScorerTable
from palate.validity.metric_values import (
    UnitValues,
    common_units,
    run_name,
)

LEAST = 3
"""Scorers that make a ranking."""
LEAST_SHARED = 0.5


class MetricColumn(NamedTuple):
    """One figure of one benchmark, before it is known who has downstream results."""

    benchmark: str
    metric: str
    units: Mapping[CellKey, UnitValues]
    same: Mapping[CellKey, CellKey]
    """Scorers that are another one of these again."""


class MatchedMetric(NamedTuple):
    """One figure of a benchmark beside one measure of quality, for scorers that have both."""

    benchmark: str
    metric: str
    downstream: Downstream
    table: ScorerTable
    """Over the units that count for all of them."""
    n_largest: int
    """Units of the scorer with the most."""
    smallest: CellKey
    """Who has the fewest."""
    constant: tuple[CellKey, ...] = ()
    """Left out: both of their figures are the same in every unit."""

    @property
    def scorers(self) -> tuple[CellKey, ...]:
        """Those with both, in the order of the runs."""
        return self.table.scorers


def match(side: MetricColumn, downstream: Downstream) -> MatchedMetric | None:
    """Hold the scorers with downstream results to common rows; None where there are none.

    Every scorer counts once, under a name that both sides know. Whom no user moves in either
    figure is left out: who is blind to the user is at ½ on mirrored couples and at ½ in a contrast
    by their law, which is no agreement of two measurements. Raises as `common_units`.
    """
    known = dict(side.units)
    for again, first in side.same.items():
        if first in downstream.values and again in known:
            known.setdefault(first, known[again])
            del known[again]
    both = {one: own for one, own in known.items() if one in downstream.values}
    if not both:
        return None
    constant = tuple(
        one
        for one, own in both.items()
        if one in downstream.constant and np.nanmax(own.values) - np.nanmin(own.values) <= ROUNDING
    )
    if len(constant) == len(both):
        constant = ()
    moved = {one: own for one, own in both.items() if one not in constant}
    counts = {one: own.n for one, own in moved.items()}
    return MatchedMetric(
        side.benchmark,
        side.metric,
        downstream,
        common_units(moved, side.metric),
        max(counts.values()),
        min(counts, key=counts.__getitem__),
        constant,
    )


def refuse_other_questions(runs: Sequence[Run], downstream: Downstream) -> None:
    """Raise `ComparisonError` where a benchmark of this name ran on other rows than the answers."""
    for run in runs:
        keys = set(run.verdicts.keys)
        shared = len(keys & set(downstream.rows.items()))
        if shared < LEAST_SHARED * min(len(keys), len(downstream.rows)):
            raise ComparisonError(
                f"validity: {run_name(run)} is of {len(keys):,} rows of {downstream.of.benchmark}, "
                f"of which the downstream results have {shared:,}; they are of other questions"
            )


def same_model_runs(runs: Sequence[Run], downstream: Sequence[Downstream]) -> list[Run]:
    """Return the runs without those that another model made under a scorer's name.

    Raises `ComparisonError` where a scorer has no other run, naming both folders. Who does not
    say what the model was passes.
    """
    others = {k: origin for k, run in enumerate(runs) if (origin := _another(run, downstream))}
    same = [run for k, run in enumerate(runs) if k not in others]
    there = {run.cell for run in same}
    for k, origin in others.items():
        told, made = runs[k].summary, run_name(runs[k])
        if runs[k].cell not in there:
            older = min(made, origin.where, key=_written)
            raise ComparisonError(
                f"validity: {told.scorer} under {told.context} is one model (or setting) in "
                f"{made} and another in {origin.where}; the model "
                f"changed; rerun one of them (the older is {older})"
            )
    return same


def _another(run: Run, downstream: Sequence[Downstream]) -> Origin | None:
    """Return what made the picks where something else made the run.

    On the answers' benchmark fingerprints tell, with all settings and users' states. Another
    benchmark has other users, and a run in memory no fingerprints: there the models tell.
    """
    models, prints = set(run.summary.models), None
    if run.folder is not None:
        prints = tuple(read_manifest(run.folder).identity.get("fingerprints", ()))
    for quality in downstream:
        origin = quality.origins.get(run.cell[1:])
        if origin is None:
            continue
        if prints is not None and run.summary.benchmark == quality.of.benchmark:
            differ = prints != origin.fingerprints
        else:
            differ = bool(models and origin.models) and models != set(origin.models)
        if differ:
            return origin
    return None


def _written(folder: str) -> float:
    file = Path(folder) / SUMMARY
    return file.stat().st_mtime if file.is_file() else 0.0
