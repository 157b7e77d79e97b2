"""One figure per scorer, with the rows or couples behind it: what rankings are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from palate import metrics
from palate.contexts import NOTHING, strangers_of
from palate.errors import ComparisonError
from palate.metrics.clusters import Clusters
from palate.runs import Run, Verdicts
from palate.uses import CellKey, ScorerTable
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
                f"validity: {_named(run.cell[1:])} is there twice, "
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
    found = {}
    for name, run in mine.items():
        units = _units(run, metric, mine, name)
        if units is not None and not np.isnan(units.values).all():
            found[name] = units
    return found


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
            f"unscored rows first ({_named(fewest)})"
        )
    clusters = next(iter(units.values())).clusters
    return ScorerTable(tuple(units), values[shared], clusters.take(shared))


def _named(name: CellKey) -> str:
    return f"{name[0]} under {name[1]}"


def run_name(run: Run) -> str:
    """Return where a run lies, or of what it is where it is in memory alone."""
    return str(run.folder or f"{_named(run.cell[1:])} on {run.summary.benchmark}")


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


def _units(run: Run, metric: str, runs: Mapping[CellKey, Run], name: CellKey) -> UnitValues | None:
    verdicts = run.verdicts
    if metric == "accuracy":
        return None if verdicts.mirrored else UnitValues(verdicts.values, verdicts.clusters)
    if metric in ("mirrored accuracy", "concordance"):
        if not verdicts.mirrored:
            return None
        a, b = verdicts.couples.T
        values = metrics.mirrored_values(verdicts.values[a], verdicts.values[b])
        if metric == "concordance":
            values = metrics.concordance_values(verdicts.margins[a], -verdicts.margins[b])
            told = run.summary.concordance.value if run.summary.concordance is not None else None
            # A scorer that keeps users' states was scaled by user; the run does not say by what.
            if told is None or not np.isclose(np.nanmean(values), told, atol=1e-6):
                return None
        return UnitValues(values, verdicts.couple_clusters)
    other = _partner(metric, runs, name)
    return None if other is None else _gained(verdicts, other.verdicts, name)


def _partner(metric: str, runs: Mapping[CellKey, Run], name: CellKey) -> Run | None:
    scorer, context = name
    if context == NOTHING:
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


def _gained(verdicts: Verdicts, base: Verdicts, name: CellKey) -> UnitValues:
    if not verdicts.same_rows(base):
        raise ComparisonError(f"validity: the runs of {name[0]} are of different rows")
    apart = np.where(verdicts.own_words > 0, verdicts.values - base.values, np.nan)
    if not verdicts.mirrored:
        return UnitValues(apart, verdicts.clusters)
    a, b = verdicts.couples.T
    return UnitValues((apart[a] + apart[b]) / 2, verdicts.couple_clusters)
