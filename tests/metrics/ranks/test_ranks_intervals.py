import math

import numpy as np
import pytest

from palate.metrics.ranks.over_scorers import Interval, ScorerPopulation, range_over_scorers
from palate.metrics.ranks.statistics import KENDALL, SPEARMAN

ALL = {s.name: s for s in (KENDALL, SPEARMAN)}


def covers(found: Interval, truth: float) -> bool:
    assert found.low is not None
    assert found.high is not None
    return found.low - 1e-9 <= truth <= found.high + 1e-9


def test_simulated_scorers_have_the_tau_of_their_population() -> None:
    figures = np.arange(12.0)
    population = ScorerPopulation(figures, figures, seed=0, draws=4_000)
    for r in (-0.5, 0.0, 0.8):
        mean = KENDALL(*population.draws(r)).mean()
        assert mean == pytest.approx(2 / math.pi * math.asin(r), abs=0.01)
    x, y = population.draws(1.0)
    assert x.tolist() == [y.tolist()] * 4_000


def test_simulated_scorers_keep_ties_and_figures() -> None:
    x, y = ScorerPopulation(np.array([2.0, 1, 1, 5]), np.array([0.1, 0.1, 0.3, 0.2]), seed=0).draws(
        0.3
    )
    assert np.sort(x, axis=1).tolist() == [[1, 1, 2, 5]] * len(x)
    assert y.tolist() == [0.1, 0.1, 0.2, 0.3]


@pytest.mark.parametrize("name", list(ALL))
def test_over_scorers_contains_the_value(name: str) -> None:
    rng = np.random.default_rng(1)
    for n in (3, 6, 15):
        for spread in (0.05, 0.25, 1.0):
            x = np.arange(float(n))
            y = x + rng.normal(0, n * spread, n)
            found = range_over_scorers(ALL[name], x, y)
            assert covers(found, float(ALL[name](x, y)[0]))
            assert -1 <= (found.low or 0) <= (found.high or 0) <= 1


def test_a_perfect_ranking_of_six_says_little() -> None:
    six = np.arange(6.0)
    up, down = range_over_scorers(KENDALL, six, six), range_over_scorers(KENDALL, six, -six)
    assert up.high == 1
    assert 0.35 < (up.low or 0) < 0.5
    assert down.low == -1
    assert (down.high or 0) == pytest.approx(-(up.low or 0), abs=0.05)
