"""One figure per scorer, with and without each user: what rankings are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from palate import metrics
from palate.comparison.gains import under
from palate.errors import ComparisonError
from palate.runs import Run, Verdicts
from palate.specs import Spec

Doubles = NDArray[np.float64]
Contestant = tuple[str, str]
"""Scorer and context, as canonical specs."""
ROUNDED = 1e-9
"""Of the largest margin: what is closer was moved by rounding alone."""
METRICS = ("accuracy", "mirrored accuracy", "shift", "gain", "identity gain")


class Figures(NamedTuple):
    """A mean over units (rows or couples) for one contestant, and the same without each user."""

    value: float
    without: Mapping[str, float]
    """By user left out; a user without units leaves the value as it is."""


class Units(NamedTuple):
    """What a figure is the mean of: a value per row, or per couple."""

    values: Doubles
    """NaN where a unit does not count."""
    users: tuple[NDArray[np.str_], ...]
    """Of each unit: whose it is, or both whose it is."""


class Held(NamedTuple):
    """Figures of several contestants, all over the same units."""

    figures: dict[Contestant, Figures]
    units: int
    """That count for every contestant."""
    of: int
    """That count for the contestant with the most."""
    fewest: Contestant
    """Who has the fewest."""


def benchmark_figures(runs: Sequence[Run], metric: str) -> dict[Contestant, Figures]:
    """Return what a benchmark's runs say of each contestant, by one of `METRICS`.

    Only contestants that have the figure: accuracy of whole sets, mirrored accuracy and shift of
    couples, gains of contexts that show something and whose partner is there. Oracles are left out,
    and of shift the scorers that keep users' states, whose margins were scaled by user. All figures
    are over the rows (or couples) that count for every contestant.

    Raises:
        ComparisonError: for runs of several benchmarks or of other rows, or where no row counts for
            every contestant.
    """
    units = benchmark_units(runs, metric)
    return held_together(units, metric).figures if units else {}


def benchmark_units(runs: Sequence[Run], metric: str) -> dict[Contestant, Units]:
    """Return the values behind `benchmark_figures`, contestant by contestant.

    Raises `ComparisonError` for runs of several benchmarks, or of other rows.
    """
    names = {run.summary.benchmark for run in runs}
    if len(names) > 1:
        raise ComparisonError(f"validity: runs of several benchmarks ({', '.join(sorted(names))})")
    mine = {(r.summary.scorer, r.summary.context): r for r in runs if not r.summary.oracle}
    if len(mine) < sum(not run.summary.oracle for run in runs):
        raise ComparisonError(
            "validity: one scorer and context is there twice, with other settings; name run folders"
        )
    for contestant, run in mine.items():
        first = next(iter(mine))
        if not run.verdicts.same_rows(mine[first].verdicts):
            raise ComparisonError(
                f"validity: {_named(contestant)} ran on other rows of {run.summary.benchmark} than "
                f"{_named(first)} ({len(run.verdicts):,} and {len(mine[first].verdicts):,} rows); "
                "name run folders of the same rows"
            )
    found = {}
    for contestant, run in mine.items():
        units = _units(run, metric, mine, contestant)
        if units is not None and not np.isnan(units.values).all():
            found[contestant] = units
    return found


def held_together(units: Mapping[Contestant, Units], metric: str) -> Held:
    """Return every contestant's figure over the units that count for all of them.

    Raises `ComparisonError` where there is none.
    """
    counts = {one: ~np.isnan(own.values) for one, own in units.items()}
    fewest = min(counts, key=lambda one: int(counts[one].sum()))
    shared = np.logical_and.reduce(list(counts.values()))
    if not shared.any():
        raise ComparisonError(
            f"validity: no row has {metric} of every contestant; leave out who is unscored where "
            f"others are not, {_named(fewest)} first"
        )
    figures = {
        one: figure_of(Units(own.values[shared], tuple(side[shared] for side in own.users)))
        for one, own in units.items()
    }
    most = max(int(own.sum()) for own in counts.values())
    return Held(figures, int(shared.sum()), most, fewest)


def _named(contestant: Contestant) -> str:
    return f"{contestant[0]} under {contestant[1]}"


def same_as_none(runs: Sequence[Run]) -> dict[Contestant, Contestant]:
    """Map contestants that no shown text moved, row by row, to their scorer under `none`.

    A scorer that is blind to the user is one contestant, however many contexts it ran under.
    """
    mine = {(r.summary.scorer, r.summary.context): r.verdicts for r in runs}
    found = {}
    for (scorer, context), verdicts in mine.items():
        bare = mine.get((scorer, "none"))
        if context == "none" or bare is None or not verdicts.same_rows(bare):
            continue
        ours, theirs = verdicts.margins, bare.margins
        if np.isnan(ours).all():  # verdicts averaged over strangers
            ours, theirs = verdicts.values, bare.values
        size = float(np.nanmax(np.abs(theirs), initial=0.0))
        # Batches are cut otherwise where slates are alike, and sums then round otherwise.
        if np.allclose(ours, theirs, rtol=0.0, atol=ROUNDED * size, equal_nan=True):
            found[scorer, context] = scorer, "none"
    return found


def _units(
    run: Run, metric: str, runs: Mapping[Contestant, Run], contestant: Contestant
) -> Units | None:
    verdicts = run.verdicts
    if metric == "accuracy":
        return None if verdicts.mirrored else Units(verdicts.values, (verdicts.users,))
    if metric in ("mirrored accuracy", "shift"):
        if not verdicts.mirrored:
            return None
        a, b = verdicts.couples.T
        users = (verdicts.users[a], verdicts.users[b])
        if metric == "mirrored accuracy":
            return Units(metrics.mirrored_values(verdicts.values[a], verdicts.values[b]), users)
        values = metrics.shift_values(verdicts.margins[a], -verdicts.margins[b])
        told = run.summary.shift.value if run.summary.shift is not None else None
        # A scorer that keeps users' states was scaled by user, and the run does not say by what.
        if told is None or not np.isclose(np.nanmean(values), told, atol=1e-6):
            return None
        return Units(values, users)
    other = _partner(metric, runs, contestant)
    return None if other is None else _gained(verdicts, other.verdicts, contestant)


def _partner(metric: str, runs: Mapping[Contestant, Run], contestant: Contestant) -> Run | None:
    scorer, context = contestant
    if context == "none":
        return None
    if metric == "gain":
        return runs.get((scorer, "none"))
    if Spec.parse(context).options.get("of") == "stranger":
        return None
    contexts = [shown for by, shown in runs if by == scorer]
    stranger = next(iter(under(context, "of", "stranger", contexts)), None)
    return None if stranger is None else runs[scorer, stranger]


def _gained(ours: Verdicts, theirs: Verdicts, contestant: Contestant) -> Units:
    if not ours.same_rows(theirs):
        raise ComparisonError(f"validity: the runs of {contestant[0]} are of different rows")
    apart = np.where(ours.own_words > 0, ours.values - theirs.values, np.nan)
    if not ours.mirrored:
        return Units(apart, (ours.users,))
    a, b = ours.couples.T
    return Units((apart[a] + apart[b]) / 2, (ours.users[a], ours.users[b]))


def figure_of(units: Units) -> Figures:
    """Return the mean of units that all count, and the same without each user.

    Replicates of couples vary as the dyadic jackknife says.
    """
    found = left_out(units)
    if len(units.users) == 2:
        return found._replace(
            without=_dyadic(found.value, found.without, units.values, units.users)
        )
    return found


def left_out(units: Units) -> Figures:
    """Return the mean of units that all count, and plainly the same without each user."""
    values = units.values
    total, n = float(values.sum()), len(values)
    sums: dict[str, tuple[float, int]] = {}
    for side in units.users:
        names, codes = np.unique(side, return_inverse=True)
        held = np.bincount(codes, weights=values, minlength=len(names))
        many = np.bincount(codes, minlength=len(names))
        for name, own, count in zip(names.tolist(), held.tolist(), many.tolist(), strict=True):
            before = sums.get(name, (0.0, 0))
            sums[name] = before[0] + own, before[1] + count
    without = {
        name: (total - own) / (n - count) for name, (own, count) in sums.items() if count < n
    }
    return Figures(total / n, without)


def _dyadic(
    mean: float, without: Mapping[str, float], values: Doubles, sides: Sequence[NDArray[np.str_]]
) -> dict[str, float]:
    """Draw replicates over couples towards the mean, to the variance of the dyadic jackknife.

    Leaving out either of its users takes a couple away, so the plain sum of squares counts what a
    couple does by itself twice.
    """
    estimate = metrics.couple_mean(values, *sides, null=0.0, bounds=(-1.0, 1.0))
    apart = np.array(list(without.values())) - mean
    plain = (len(apart) - 1) / len(apart) * float(apart @ apart) if len(apart) else 0.0
    if estimate.se is None or not plain > 0:
        return dict(without)
    scale = estimate.se / np.sqrt(plain)
    return {user: mean + scale * (value - mean) for user, value in without.items()}
