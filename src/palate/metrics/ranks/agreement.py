"""Agreement of two rankings of scorers: how well one predicts the other."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from palate.errors import UsageError
from palate.metrics.arrays import FloatArray, same_length, vector
from palate.metrics.estimates import ROUNDING
from palate.metrics.ranks.null_distribution import NullDistribution, null_distribution
from palate.metrics.ranks.over_scorers import Interval, range_over_scorers
from palate.metrics.ranks.statistics import KENDALL, SPEARMAN, RankStatistic

LEAST_SCORERS = 3


@dataclass(frozen=True, slots=True)
class RankAgreement:
    """One statistic of one ranking against another."""

    statistic: str
    """``kendall`` or ``spearman``."""
    value: float | None
    """None where a side ranks nothing and the statistic needs it to."""
    n: int
    """Scorers."""
    chance: NullDistribution
    """What random rankings get, and the p-value against them."""
    interval: Interval
    """95 % interval for other scorers drawn like these, measured alike."""


def rank_agreement(
    figures: ArrayLike, downstream: ArrayLike, *, seed: int = 0
) -> tuple[RankAgreement, RankAgreement]:
    """Kendall's τ-b and Spearman's ρ of two rankings of n ≥ 3 scorers.

    Args:
        figures: what a benchmark says of each scorer, shape (n,), higher is better.
        downstream: the quality that it should predict, shape (n,).
        seed: of random rankings and of the intervals' draws.

    Raises:
        UsageError: for fewer than three scorers, or a figure that is not finite.

    >>> both = rank_agreement([1, 2, 3, 4, 5, 6], [3, 1, 2, 6, 5, 4])
    >>> [(a.statistic, round(a.value, 3), round(a.chance.p, 3)) for a in both]
    [('kendall', 0.333, 0.469), ('spearman', 0.6, 0.242)]
    """
    x, y = figures_of(figures, downstream)
    return _agreement(KENDALL, x, y, seed), _agreement(SPEARMAN, x, y, seed)


def kendall_agreement(figures: ArrayLike, downstream: ArrayLike, *, seed: int = 0) -> RankAgreement:
    """Kendall's τ-b alone, as `rank_agreement` gives it.

    >>> round(kendall_agreement([1, 2, 3, 4], [1, 2, 4, 3]).value, 3)
    0.667
    """
    return _agreement(KENDALL, *figures_of(figures, downstream), seed)


def _agreement(statistic: RankStatistic, x: FloatArray, y: FloatArray, seed: int) -> RankAgreement:
    return RankAgreement(
        statistic=statistic.name,
        value=None if math.isnan(value := float(statistic(x, y)[0])) else value,
        n=x.size,
        chance=null_distribution(statistic, x, y, seed=seed),
        interval=range_over_scorers(statistic, x, y, seed=seed),
    )


def figures_of(figures: ArrayLike, downstream: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Both columns as vectors, refused as by `rank_agreement` where no ranking can be made."""
    x, y = vector(figures), vector(downstream)
    same_length(figures=x, downstream=y)
    if x.size < LEAST_SCORERS:
        raise UsageError(f"{x.size} scorers; a rank agreement needs at least {LEAST_SCORERS}")
    missing = np.flatnonzero(~np.isfinite(x + y))
    if missing.size:
        raise UsageError(
            f"scorer {int(missing[0])} (counted from 0) has a figure that is not finite; "
            "leave out scorers without both figures"
        )
    return _tied(x), _tied(y)


def _tied(figures: FloatArray) -> FloatArray:
    """Figures that differ by rounding alone are one figure: nothing may be ranked by that."""
    order = np.argsort(figures, kind="stable")
    rising = figures[order]
    size = ROUNDING * np.maximum(1.0, np.abs(rising))
    group = np.concatenate([[0], np.cumsum(~(np.diff(rising) <= size[1:]))])
    tied = np.empty_like(figures)
    _, first = np.unique(group, return_index=True)
    tied[order] = rising[first][group]
    return tied
