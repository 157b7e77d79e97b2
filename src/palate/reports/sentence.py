"""One sentence that says what a grid shows, and what it cannot."""

from __future__ import annotations

from collections.abc import Sequence

from palate.evaluation import Grid
from palate.reports.numbers import context_name, plain, with_interval
from palate.runs import Gain

LEVEL = 0.05


def what_it_shows(grid: Grid) -> str:
    """Return the finding of a grid's identity gains; empty where none was asked for."""
    identity = [g for g in grid.gains if g.kind == "identity" and g.value is not None]
    if not identity:
        return ""
    knows = [g for g in identity if _significant(g) and (g.value or 0) > 0]
    worse = [g for g in identity if _significant(g) and (g.value or 0) < 0]
    unclear = [g for g in identity if not _significant(g) and g.low != g.high]
    blind = [g for g in identity if g.low == g.high == 0]
    said = []
    if knows:
        best = "; ".join(f"{_name(g)} {_figure(g)}" for g in sorted(knows, key=_value))
        said.append(f"What is shown of the right user helps more than a stranger's: {best}")
    if worse:
        said.append(
            "a stranger's helps more: " + "; ".join(f"{_name(g)} {_figure(g)}" for g in worse)
        )
    if unclear:
        said.append(f"no identity gain is shown for {_names(unclear)}")
    if blind:
        said.append(f"{_names(blind)} cannot tell users apart")
    limit = _limit(grid)
    return f"{'; '.join(said)}. {limit}" if limit else f"{'; '.join(said)}."


def _limit(grid: Grid) -> str:
    sizes = {run.summary.benchmark: run.summary for run in grid.runs}
    identity = [g for g in grid.gains if g.kind == "identity"]
    half = [
        (g.high - g.low) / 2
        for g in identity
        if g.high is not None and g.low is not None and g.high > g.low
    ]
    if not half:
        return ""
    pairs = ", ".join(f"{s.n_pairs:,} pairs of {s.n_users:,} users" for s in sizes.values())
    return (
        f"What it cannot show: with {pairs} an identity gain is known to about "
        f"±{plain(max(half))} at worst, so smaller ones go unseen."
    )


def _significant(gain: Gain) -> bool:
    return gain.p_holm is not None and gain.p_holm < LEVEL


def _value(gain: Gain) -> float:
    return -(gain.value or 0.0)


def _figure(gain: Gain) -> str:
    return with_interval(gain.value, gain.low, gain.high, signed=True)


def _name(gain: Gain) -> str:
    return f"{gain.scorer.split('?')[0].split(':')[0]} ({context_name(gain.context)})"


def _names(gains: Sequence[Gain]) -> str:
    kinds = list(dict.fromkeys(g.scorer.split("?")[0].split(":")[0] for g in gains))
    return ", ".join(kinds[:-1]) + (" and " if len(kinds) > 1 else "") + kinds[-1]
