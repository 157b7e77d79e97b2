"""Which of two benchmarks foretells the same downstream figures better?

Both are compared with one vector of downstream figures, so their agreements depend on each other:
on shared scorers, and on whatever the two benchmarks have in common.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri
from scipy.stats import rankdata

from palate.errors import UsageError
from palate.metrics.arrays import FloatArray
from palate.metrics.estimates import ROUNDING, TAIL
from palate.metrics.ranks.agreement import figures_of
from palate.metrics.ranks.copula import Three, fit_copula, level_in_both
from palate.metrics.ranks.over_items import Replicates, deviations, range_over_items
from palate.metrics.ranks.over_scorers import DRAWS, NO_RANGE, Range, range_over_scorers
from palate.metrics.ranks.statistics import RBO_P, Gain, Statistic, statistics

SWAP_EXACT_UP_TO = 12
JOIN_DRAWS = 20_000


@dataclass(frozen=True, slots=True)
class AgreementDifference:
    """Agreement of the first benchmark minus that of the second; None where not defined."""

    statistic: str
    setting: str | None
    first: float | None
    second: float | None
    value: float | None
    n: int
    """Scorers."""
    p: float | None
    """Two-sided, by exchanging the two benchmarks' ranks scorer by scorer."""
    exact: bool
    """True where every exchange was tried."""
    over_scorers: Range
    over_items: Range


def agreement_differences(
    first: ArrayLike,
    second: ArrayLike,
    downstream: ArrayLike,
    *,
    replicates: tuple[Replicates, Replicates] | None = None,
    same_users: bool = False,
    rbo_p: float = RBO_P,
    gain: Gain = "shifted",
    seed: int = 0,
    draws: int = 9_999,
) -> tuple[AgreementDifference, ...]:
    """Compare two benchmarks' agreement with the same downstream figures, by five statistics.

    The test: where the two are equally good, a scorer's ranks in them may be exchanged. p is the
    share of exchanges with ``|Δ*| ≥ |Δ|``, all 2ⁿ up to 12 scorers whose ranks differ, else
    ``(1 + hits) / (1 + draws)`` over seeded ones. It needs six such scorers to reach 0.05.

    Where a quarter of the scorers or more, three at least, are level with each other in both
    benchmarks (the blind on couples), ranks are counted from the largest such set, so that to
    exchange one of it changes nothing; and they stay level in the populations that the interval
    over scorers draws.

    The intervals join those of the two agreements. With ends l and u around s, an agreement is
    taken as ``s + g (u - s)/1.96`` for g ≥ 0 and ``s + g (s - l)/1.96`` below, g standard normal;
    the interval is the 2.5 to 97.5 % range of the first minus the second, where the two g have the
    correlation of the two agreements: over scorers that of sets of n scorers drawn from
    the copula of `fit_copula`, over items that under draws of users.

    Args:
        first: figures of the one benchmark, shape (n,), higher is better.
        second: figures of the other.
        downstream: what both should foretell.
        replicates: of the first and of the second, each beside the same downstream replicates.
        same_users: true where row u of both benchmarks' replicates leaves out the same user.
        rbo_p: persistence of RBO.
        gain: of NDCG.
        seed: of all draws.
        draws: how many exchanges beyond 12 scorers.

    Raises:
        UsageError: as ``rank_agreement``, or for columns of unequal length.

    Example:
        >>> truth = [1, 2, 3, 4, 5, 6, 7, 8]
        >>> kendall = agreement_differences(truth, [4, 8, 1, 7, 2, 6, 5, 3], truth)[0]
        >>> kendall.first, round(kendall.second, 3), round(kendall.p, 3)
        (1.0, -0.143, 0.031)
    """
    x1, y = figures_of(first, downstream)
    x2, _ = figures_of(second, downstream)
    chosen = statistics(rbo_p=rbo_p, gain=gain)
    by_user = None
    if replicates is not None:
        by_user = _user_draws((x1, x2, y), replicates, same_users=same_users, seed=seed)
    swapped, exact = _exchanges(x1, x2, y, seed=seed, draws=draws)
    population = fit_copula(x1, x2, y, chosen[0], seed=seed)
    drawn = None if population is None else population.draw(y.size, seed=seed)
    return tuple(
        _one(statistic, (x1, x2, y), swapped, exact, drawn, replicates, by_user, seed)
        for statistic in chosen
    )


def _one(
    statistic: Statistic,
    figures: Three,
    swapped: Three,
    exact: bool,
    drawn: Three | None,
    replicates: tuple[Replicates, Replicates] | None,
    by_user: Three | None,
    seed: int,
) -> AgreementDifference:
    x1, x2, y = figures
    s1, s2 = float(statistic(x1, y)[0]), float(statistic(x2, y)[0])
    if math.isnan(s1) or math.isnan(s2):
        known1, known2 = (None if math.isnan(s) else s for s in (s1, s2))
        return AgreementDifference(
            statistic.name, statistic.setting, known1, known2, None, y.size, None, exact,
            NO_RANGE, NO_RANGE,
        )  # fmt: skip
    over_scorers = over_items = NO_RANGE
    if drawn is not None:
        ends = [range_over_scorers(statistic, x, y, seed=seed) for x in (x1, x2)]
        s1_drawn, s2_drawn = (statistic(x, drawn[2]) for x in drawn[:2])
        over_scorers = _joined((s1, s2), ends, _correlation(s1_drawn, s2_drawn))
    if replicates is not None and by_user is not None:
        ends = [
            range_over_items(statistic, x, y, own, seed=seed)
            for x, own in zip((x1, x2), replicates, strict=True)
        ]
        c = _correlation(statistic(by_user[0], by_user[2]), statistic(by_user[1], by_user[2]))
        over_items = _joined((s1, s2), ends, c)
    return AgreementDifference(
        statistic=statistic.name,
        setting=statistic.setting,
        first=s1,
        second=s2,
        value=s1 - s2,
        n=y.size,
        p=_swap_p(statistic, swapped, exact=exact),
        exact=exact,
        over_scorers=over_scorers,
        over_items=over_items,
    )


def _exchanges(
    x1: FloatArray, x2: FloatArray, y: FloatArray, *, seed: int, draws: int
) -> tuple[Three, bool]:
    # Ranks, since the two benchmarks may have different units; the first row is as observed.
    a, b = rankdata(x1), rankdata(x2)
    level = level_in_both(a, b)
    if level.any():
        a, b = a - a[level][0], b - b[level][0]
    # Sorted, and the lower rank first, so that neither the listing of scorers nor the names of the
    # benchmarks change what is drawn.
    lower, upper = np.minimum(a, b), np.maximum(a, b)
    order = np.lexsort((upper, lower, y))
    turned = (a > b)[order]
    lower, upper, y = lower[order], upper[order], y[order]
    moving = np.flatnonzero(lower != upper)
    exact = moving.size <= SWAP_EXACT_UP_TO
    if exact:
        swap = np.zeros((1 << moving.size, y.size), dtype=bool)
        swap[:, moving] = (np.arange(len(swap))[:, None] >> np.arange(moving.size)) & 1
    else:
        swap = np.random.default_rng(seed).integers(0, 2, size=(1 + draws, y.size)).astype(bool)
        swap[0] = False
    swap ^= turned
    return (np.where(swap, upper, lower), np.where(swap, lower, upper), y), exact


def _swap_p(statistic: Statistic, swapped: Three, *, exact: bool) -> float:
    one, other, y = swapped
    moved = statistic(one, y) - statistic(other, y)
    # An exchange may leave a benchmark without any order; it then has nothing to agree with.
    moved = np.abs(np.where(np.isnan(moved), 0.0, moved))
    hits = int(np.count_nonzero(moved >= moved[0] - ROUNDING))
    # Beyond enumeration the observed row is the 1 of (1 + hits) / (1 + draws).
    return hits / moved.size


def _user_draws(
    figures: Three,
    replicates: tuple[Replicates, Replicates],
    *,
    same_users: bool,
    seed: int,
) -> Three:
    x1, x2, y = figures
    one, other = replicates
    a = deviations(x1, one.benchmark, "first benchmark")
    b = deviations(x2, other.benchmark, "second benchmark")
    d = deviations(y, one.downstream, "downstream")
    if same_users and len(a) != len(b):
        raise UsageError(
            f"the same users left out, but {len(a)} and {len(b)} replicates of the two benchmarks"
        )
    rng = np.random.default_rng(seed)
    z_a = rng.standard_normal((DRAWS, len(a)))
    z_b = z_a if same_users else rng.standard_normal((DRAWS, len(b)))
    z_d = z_a if one.same_users else z_b if other.same_users else None
    if z_d is None or z_d.shape[1] != len(d):
        z_d = rng.standard_normal((DRAWS, len(d)))
    return x1 + z_a @ a, x2 + z_b @ b, y + z_d @ d


def _correlation(a: FloatArray, b: FloatArray) -> float:
    defined = ~np.isnan(a + b)
    a, b = a[defined], b[defined]
    if a.size < 2 or not (a.std() > ROUNDING and b.std() > ROUNDING):
        return 0.0
    return float(np.corrcoef(a, b)[0, 1])


def _joined(values: tuple[float, float], ends: list[Range], c: float) -> Range:
    g = np.random.default_rng(0).standard_normal((2, JOIN_DRAWS))
    g[1] = c * g[0] + math.sqrt(max(0.0, 1 - c * c)) * g[1]
    sides = []
    for value, end, shock in zip(values, ends, g, strict=True):
        if end.low is None or end.high is None:
            return NO_RANGE
        up, down = max(0.0, end.high - value), max(0.0, value - end.low)
        sides.append(value + shock * np.where(shock > 0, up, down) / float(ndtri(1 - TAIL)))
    low, high = np.quantile(sides[0] - sides[1], [TAIL, 1 - TAIL]).tolist()
    difference = values[0] - values[1]
    return Range(min(low, difference), max(high, difference))
