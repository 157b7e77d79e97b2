"""Figures that rankings are made of, for the scorers that benchmarks and results both know."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from palate import metrics
from palate.contexts import NOTHING, same_of, shows, strangers_of
from palate.errors import ComparisonError
from palate.metrics import Clusters
from palate.metrics.estimates import ROUNDING
from palate.runs import SUMMARY, Run
from palate.uses import CellKey, Downstream, DownstreamQuality, Origin, ScorerTable
from palate.uses.units import Doubles

ROUNDED = 1e-9
"""Of the largest margin: what is closer was moved by rounding alone."""
METRICS = ("accuracy", "mirrored accuracy", "concordance", "gain", "identity gain")


class UnitValues(NamedTuple):
    """What a figure is the mean of: a value per row, or per couple."""

    values: Doubles
    """NaN where a unit does not count."""
    clusters: Clusters
    """Users, questions and texts of each unit."""

    @property
    def n(self) -> int:
        """Units that count."""
        return int(np.count_nonzero(~np.isnan(self.values)))


def benchmark_units(runs: Sequence[Run], metric: str) -> dict[CellKey, UnitValues]:
    """Return what a benchmark's runs say of each scorer, by one of `METRICS`, unit by unit.

    Only scorers that have the metric: accuracy of whole sets, mirrored accuracy and concordance
    of couples, gains of contexts that show something and whose control is there. Oracles are left
    out, and of concordance the scorers that keep users' states, whose margins were scaled by user.

    Raises:
        ComparisonError: for runs of several benchmarks, of other rows, twice of one scorer, or
            of strangers' contexts that differ in draws alone.
    """
    names = {run.summary.benchmark for run in runs}
    if len(names) > 1:
        raise ComparisonError(f"validity: runs of several benchmarks ({', '.join(sorted(names))})")
    mine: dict[CellKey, Run] = {}
    for run in (run for run in runs if not run.summary.oracle):
        other = mine.setdefault(run.cell[1:], run)
        if other is not run:
            raise ComparisonError(
                f"validity: {' under '.join(run.cell[1:])} is there twice, "
                f"with other settings: {run_name(other)} and {run_name(run)}; name one of the two"
            )
    for run in mine.values():
        first = next(iter(mine.values()))
        if not run.verdicts.same_rows(first.verdicts):
            raise ComparisonError(
                f"validity: {run_name(run)} is of other rows of {run.summary.benchmark} than "
                f"{run_name(first)} ({len(run.verdicts):,} and {len(first.verdicts):,} rows); "
                "name runs of the same rows"
            )
    by_scorer = ((key, _units(run, metric, mine)) for key, run in mine.items())
    return {key: units for key, units in by_scorer if units is not None and units.n}


def common_units(units: Mapping[CellKey, UnitValues], metric: str) -> ScorerTable:
    """Hold all scorers to the units that count for every one of them.

    Raises `ComparisonError` where there is none.
    """
    values = np.stack([own.values for own in units.values()], axis=1)
    shared = np.asarray(~np.isnan(values).any(axis=1))
    if not shared.any():
        fewest = min(units, key=lambda name: units[name].n)
        raise ComparisonError(
            f"validity: no row has {metric} of every scorer; leave out the scorer with the most "
            f"unscored rows first ({' under '.join(fewest)})"
        )
    clusters = next(iter(units.values())).clusters
    return ScorerTable(tuple(units), values[shared], clusters.take(shared))


def run_name(run: Run) -> str:
    """Return where a run lies, or of what it is where it is in memory alone."""
    return str(run.folder or f"{' under '.join(run.cell[1:])} on {run.summary.benchmark}")


def same_as_none(runs: Sequence[Run]) -> dict[CellKey, CellKey]:
    """Map scorers that no shown text moved, row by row, to their scorer under `none`.

    A scorer that is blind to the user counts once, however many contexts it ran under.
    """
    mine = {run.cell[1:]: run.verdicts for run in runs}
    same = {}
    for (scorer, context), verdicts in mine.items():
        bare = mine.get((scorer, NOTHING))
        if context == NOTHING or bare is None or not verdicts.same_rows(bare):
            continue
        ours, theirs = verdicts.margins, bare.margins
        if np.isnan(ours).all():  # verdicts averaged over strangers
            ours, theirs = verdicts.values, bare.values
        size = float(np.nanmax(np.abs(theirs), initial=0.0))
        # Batches are cut otherwise where slates are alike, and sums then round otherwise.
        if np.allclose(ours, theirs, rtol=0.0, atol=ROUNDED * size, equal_nan=True):
            same[scorer, context] = scorer, NOTHING
    return same


def _units(run: Run, metric: str, runs: Mapping[CellKey, Run]) -> UnitValues | None:
    verdicts, units = run.verdicts, run.verdicts.units()
    if metric not in ("gain", "identity gain"):
        if verdicts.mirrored == (metric == "accuracy"):
            return None
        values = units.values(verdicts.values)
        if metric == "concordance":
            a, b = units.rows
            values = metrics.concordance_values(verdicts.margins[a], -verdicts.margins[b])
            stated = run.summary.concordance.value if run.summary.concordance else None
            # A scorer that keeps users' states was scaled by user; the run does not say by what.
            if stated is None or not np.isclose(np.nanmean(values), stated, atol=1e-6):
                return None
        return UnitValues(values, units.clusters)
    other = _partner(metric, runs, *run.cell[1:])
    if other is None:
        return None
    if not verdicts.same_rows(other.verdicts):
        raise ComparisonError(f"validity: the runs of {run.cell[1]} are of different rows")
    gains = np.where(verdicts.own_words > 0, verdicts.values - other.verdicts.values, np.nan)
    return UnitValues(units.values(gains), units.clusters)


def _partner(metric: str, runs: Mapping[CellKey, Run], scorer: str, context: str) -> Run | None:
    if shows(context) not in ("user", "stranger") or same_of(context):
        return None
    if metric == "gain":
        return runs.get((scorer, NOTHING))
    strangers = strangers_of(context, [shown for by, shown in runs if by == scorer])
    if len(strangers) > 1:
        raise ComparisonError(
            f"validity: {scorer} under {' and '.join(strangers)} differs in draws alone; name run "
            "folders of one of them"
        )
    return runs[scorer, strangers[0]] if strangers else None


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
            known.setdefault(first, known.pop(again))
    both = {key: own for key, own in known.items() if key in downstream.values}
    if not both:
        return None
    constant = tuple(
        key
        for key, own in both.items()
        if key in downstream.constant and np.nanmax(own.values) - np.nanmin(own.values) <= ROUNDING
    )
    if len(constant) == len(both):
        constant = ()
    moved = {key: own for key, own in both.items() if key not in constant}
    counts = {key: own.n for key, own in moved.items()}
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
    cells = {run.cell for run in same}
    for k, origin in others.items():
        summary, made = runs[k].summary, run_name(runs[k])
        if runs[k].cell not in cells:
            older = min(made, origin.where, key=_written)
            raise ComparisonError(
                f"validity: {summary.scorer} under {summary.context} is one model (or setting) in "
                f"{made} and another in {origin.where}; the model "
                f"changed; rerun one of them (the older is {older})"
            )
    return same


def _another(run: Run, downstream: Sequence[Downstream]) -> Origin | None:
    """Return what made the picks where something else made the run.

    On the answers' benchmark fingerprints tell, with all settings and users' states. Another
    benchmark has other users, and a run in memory no fingerprints: there the models tell.
    """
    models, prints = set(run.summary.models), run.fingerprints
    for quality in downstream:
        if (origin := quality.origins.get(run.cell[1:])) is None:
            continue
        if prints and origin.fingerprints and run.summary.benchmark == quality.of.benchmark:
            differ = prints != origin.fingerprints
        else:
            differ = bool(models and origin.models) and models != set(origin.models)
        if differ:
            return origin
    return None


def _written(folder: str) -> float:
    file = Path(folder) / SUMMARY
    return file.stat().st_mtime if file.is_file() else 0.0


def joined(results: Sequence[Downstream]) -> list[Downstream]:
    """Return what several results say of the same answers and measure as one.

    A scorer that is there twice with the same picks counts once. Raises `ComparisonError` where
    its picks differ, and where answers were left without score or quality: each result then rests
    on other answers.
    """
    by: dict[tuple[DownstreamQuality, str], Downstream] = {}
    for result in (result for result in results if result.values):
        first = by.setdefault((result.of, result.samples), result)
        if first is result:
            continue
        first_folder, other = (next(iter(side.origins.values())).where for side in (first, result))
        if not (first.complete and result.complete) or first.rows != result.rows:
            raise ComparisonError(
                f"validity: {first_folder} and {other} rest on different answers of "
                f"{result.of.policy}, since some have no score; name one of them, or run "
                f"{result.kind} with all scorers"
            )
        for key in first.values.keys() & result.values.keys():
            if np.any(np.abs(first.values[key] - result.values[key]) > ROUNDING):
                raise ComparisonError(
                    f"validity: {' under '.join(key)} picks otherwise in {first_folder} than "
                    f"in {other}; name one of them"
                )
        by[result.of, result.samples] = replace(
            first,
            values={**first.values, **result.values},
            origins={**first.origins, **result.origins},
        )
    return list(by.values())
