"""Tests keep their level and intervals cover, in planted worlds of scorers."""

import math
from functools import cache

import numpy as np
import pytest
from correlated import half_blind, scorers

from palate.metrics import agreement_difference
from palate.metrics.ranks import KENDALL, SPEARMAN, Interval, null_distribution, range_over_scorers

ALL = {s.name: s for s in (KENDALL, SPEARMAN)}


def test_level_of_the_test_under_chance() -> None:
    rng = np.random.default_rng(5)
    worlds = 300
    hits = dict.fromkeys(ALL, 0)
    for _ in range(worlds):
        x, y = rng.normal(size=(2, 6))
        for name, statistic in ALL.items():
            hits[name] += (null_distribution(statistic, x, y).p or 1) <= 0.05
    assert all(0.01 <= h / worlds <= 0.08 for h in hits.values()), hits


@pytest.mark.parametrize("n", [6, 20])
@pytest.mark.parametrize("r", [0.0, 0.6, 0.9])
def test_over_scorers_covers_the_population(n: int, r: float) -> None:
    rng = np.random.default_rng(2)

    @cache
    def interval(order: tuple[int, ...]) -> Interval:
        return range_over_scorers(KENDALL, np.arange(float(n)), np.array(order, dtype=float))

    by_value: dict[float, Interval] = {}
    hits, worlds = 0, 400
    for _ in range(worlds):
        z = rng.normal(size=n)
        x = z.argsort().argsort()
        y = np.exp(r * z + math.sqrt(1 - r * r) * rng.normal(size=n))
        # Without ties the interval is a function of τ and n.
        tau = round(float(KENDALL(x.astype(float), y)[0]), 9)
        if tau not in by_value:
            by_value[tau] = interval(tuple(y[x.argsort()].argsort().argsort().tolist()))
        known = by_value[tau]
        hits += known.low - 1e-9 <= 2 / math.pi * math.asin(r) <= known.high + 1e-9
    assert hits / worlds >= 0.93


@pytest.mark.parametrize(("r", "between"), [(0.0, 0.0), (0.8, 0.64), (0.8, 0.95)])
def test_level_of_the_exchange_test(r: float, between: float) -> None:
    rng = np.random.default_rng(2)
    worlds, hits = 500, 0
    for _ in range(worlds):
        hits += agreement_difference(*scorers(rng, 15, r, r, between), draws=299).p <= 0.05
    assert hits / worlds <= 0.08


@pytest.mark.parametrize(("r1", "r2", "least", "most"), [(0.4, 0.4, 0, 0.08), (0.6, 0, 0.4, 0.7)])
def test_the_exchange_test_where_most_are_blind(r1, r2, least, most) -> None:
    # With ranks that are not counted from the blind it finds the difference in 0.22 of worlds.
    rng = np.random.default_rng(8)
    worlds, hits = 300, 0
    for _ in range(worlds):
        hits += agreement_difference(*half_blind(rng, 32, 19, r1, r2, 0.7), draws=299).p <= 0.05
    assert least <= hits / worlds <= most, hits / worlds
