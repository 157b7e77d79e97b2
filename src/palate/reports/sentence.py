"""One sentence that says what a grid shows, and what it cannot."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from palate.comparison import Grid
from palate.reports.names import context_name, short_names
from palate.reports.numbers import figure, plain
from palate.runs import Gain

LEVEL = 0.05


def what_it_shows(grid: Grid) -> str:
    """Return the finding of a grid's identity gains; empty where none was asked for."""
    identity = [g for g in grid.gains if g.kind == "identity" and g.value is not None]
    if not identity:
        return ""
    names = short_names(run.summary.scorer for run in grid.runs)
    sure = [g for g in identity if g.p_holm is not None and g.p_holm < LEVEL]
    helps = sorted((g for g in sure if _value(g) > 0), key=_value, reverse=True)
    harms = sorted((g for g in sure if _value(g) < 0), key=_value)
    flat = [g for g in identity if g.low == g.high == 0]
    tied = [g for g in flat if _only_ties(grid, g)]
    blind = [g for g in flat if g not in tied]
    unclear = [g for g in identity if g not in sure and g not in flat]
    said = []
    for what, is_state in (("What is shown", False), ("the state", True)):
        if listed := "; ".join(_figure(g, names) for g in helps if _of_state(g) == is_state):
            said.append(f"{what} of the right user helps more than a stranger's for {listed}")
    if harms:
        said.append("a stranger's helps more for " + "; ".join(_figure(g, names) for g in harms))
    if unclear:
        said.append(f"no identity gain is shown for {_and(names[g.scorer] for g in unclear)}")
    if blind:
        said.append(f"{_and(names[g.scorer] for g in blind)} cannot tell users apart")
    if tied:
        said.append(f"{_and(names[g.scorer] for g in tied)} tied on every pair")
    finding = "; ".join(said)
    limit = _limit(grid, identity)
    return f"{finding[0].upper()}{finding[1:]}. {limit}".rstrip()


def _limit(grid: Grid, identity: Sequence[Gain]) -> str:
    half = [
        (g.high - g.low) / 2
        for g in identity
        if g.high is not None and g.low is not None and g.high > g.low
    ]
    if not half:
        return ""
    sizes = {run.summary.benchmark: run.summary for run in grid.runs}
    pairs = ", ".join(f"{s.n_pairs:,} pairs of {s.n_users:,} users" for s in sizes.values())
    return (
        f"What it cannot show: on {pairs} an identity gain is known to ±{plain(max(half))} at "
        "worst, so a smaller one would go unseen."
    )


def _only_ties(grid: Grid, gain: Gain) -> bool:
    return any(
        (run.summary.benchmark, run.summary.scorer, run.summary.context)
        == (gain.benchmark, gain.scorer, gain.context)
        and run.summary.ties == run.summary.n_pairs
        for run in grid.runs
    )


def _of_state(gain: Gain) -> bool:
    return gain.against.startswith("state=")


def _value(gain: Gain) -> float:
    return gain.value or 0.0


def _figure(gain: Gain, names: Mapping[str, str]) -> str:
    return f"{names[gain.scorer]} ({context_name(gain.context)}) {figure(gain, signed=True)}"


def _and(names: Iterable[str]) -> str:
    listed = list(dict.fromkeys(names))
    return ", ".join(listed[:-1]) + (" and " if len(listed) > 1 else "") + listed[-1]
