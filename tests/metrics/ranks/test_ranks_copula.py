import math

import numpy as np
import pytest
from scipy.special import ndtri

from palate.errors import UsageError
from palate.metrics.ranks import (
    scorers_needed,
    scorers_needed_like,
    statistics,
    tau_covariance,
    tau_variance,
)
from palate.metrics.ranks.copula import fit_copula, level_in_both

KENDALL = statistics()[0]


def half_blind(n: int = 20, blind: int = 9) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(4)
    skill = rng.standard_normal(n)
    x1, x2, y = (skill + 0.5 * rng.standard_normal(n) for _ in range(3))
    x1, x2 = x1 + 0.5, x2 + 0.5
    x1[:blind] = x2[:blind] = 0.0
    return x1, x2, y


def drawn_like(*figures: np.ndarray, n: int = 20) -> tuple[np.ndarray, ...]:
    population = fit_copula(*figures, KENDALL, seed=0)
    assert population is not None
    return population.draw(n, seed=0)


@pytest.mark.parametrize(
    ("x1", "x2", "level"),
    [
        ([5, 5, 5, 1], [2, 2, 2, 2], [0, 1, 2]),
        ([5, 5, 5, 1], [2, 2, 3, 2], []),  # two are no set
        ([5, 5, 5, 1, 1, 1], [2, 2, 2, 4, 4, 4], []),  # two sets of one size
        ([5, 5, 5, *range(10)], [2, 2, 2, *range(10)], []),  # under a quarter
        ([5, 5, 5, *range(9)], [0, 0, 0, *range(9)], [0, 1, 2]),
        ([5, 5, 5, 5, 1, 1, 1], [2, 2, 2, 2, 4, 4, 4], [0, 1, 2, 3]),
    ],
)
def test_who_is_level_in_both(x1, x2, level) -> None:
    a, b = np.array(x1, dtype=float), np.array(x2, dtype=float)
    assert np.flatnonzero(level_in_both(a, b)).tolist() == level
    assert np.flatnonzero(level_in_both(b, a)).tolist() == level


def test_sets_drawn_alike_have_the_observed_agreements_on_average() -> None:
    figures = half_blind()
    drawn = drawn_like(*figures)
    for i, j in ((0, 1), (0, 2), (1, 2)):
        mean = float(np.mean(KENDALL(drawn[i], drawn[j])))
        assert mean == pytest.approx(float(KENDALL(figures[i], figures[j])[0]), abs=0.03)


def test_who_is_level_stays_level_with_as_many_below() -> None:
    x1, x2, y = half_blind()
    drawn = drawn_like(x1, x2, y)
    for x, own in zip((x1, x2), drawn, strict=False):
        assert own.shape == (2_000, 20)
        assert (own[:, -9:] == own[0, -1]).all()
        assert np.mean(own[:, :-9] < own[0, -1]) == pytest.approx(np.mean(x[9:] < 0), abs=0.02)
    # Their picks have the mean and the spread of the observed ones, among the others' normal ones.
    below = np.mean(y[None, 9:] < y[:9, None], axis=1)
    standing = ndtri(np.clip(below, 0.5 / 11, 1 - 0.5 / 11))
    assert drawn[2][:, -9:].mean() == pytest.approx(standing.mean(), abs=0.02)
    assert drawn[2][:, -9:].std() == pytest.approx(standing.std(ddof=1), rel=0.02)
    assert drawn[2][:, :-9].std() == pytest.approx(1, rel=0.02)


def test_picks_in_one_gap_between_the_others_are_told_apart() -> None:
    x1, x2, y = half_blind()
    y[:9] = y.min() - 1 - np.arange(9)
    *_, picks = drawn_like(x1, x2, y)
    assert all(len(set(own)) == 20 for own in picks[:50])
    y[:9] = y.min()
    *_, picks = drawn_like(x1, x2, y)
    assert all(len(set(own)) == 12 for own in picks[:50]), "equal picks stay equal"


def test_bad_power_and_alpha() -> None:
    with pytest.raises(UsageError, match="power and alpha"):
        scorers_needed_like(*half_blind(), power=1)
    with pytest.raises(UsageError, match="power and alpha"):
        scorers_needed_like(*half_blind(), alpha=0)


def test_larger_sets_have_the_same_share_of_them() -> None:
    one, other, picks = drawn_like(*half_blind(), n=60)
    assert one.shape == (2_000, 60)
    assert (one[:, -27:] == one[0, -1]).all()
    assert (other[:, -27:] == other[0, -1]).all()
    assert len(np.unique(one[0])) == 34
    assert len(np.unique(picks[0])) == 60


def test_one_benchmark_twice_is_one_figure() -> None:
    x, _, y = half_blind()
    one, other, _ = drawn_like(x, 3 * x, y)
    assert np.abs(one - other).max() < 0.01


def test_without_any_the_spread_is_that_of_the_formula() -> None:
    rng = np.random.default_rng(6)
    skill = rng.standard_normal(15)
    x1, x2, y = (skill + s * rng.standard_normal(15) for s in (0.3, 1.0, 0.5))
    one, other, picks = drawn_like(x1, x2, y, n=15)
    sd = float(np.std(KENDALL(one, picks) - KENDALL(other, picks)))
    t1, t2, t12 = (float(KENDALL(a, b)[0]) for a, b in ((x1, y), (x2, y), (x1, x2)))
    variance = tau_variance(t1, 15) + tau_variance(t2, 15) - 2 * tau_covariance(t1, t2, t12, 15)
    assert sd == pytest.approx(math.sqrt(variance), rel=0.06)


def test_no_order_no_population() -> None:
    same, y = np.zeros(5), np.arange(5.0)
    assert fit_copula(same, y, y, KENDALL, seed=0) is None
    assert scorers_needed_like(same, y, y) is None


@pytest.mark.parametrize("noise", [(0.3, 1.0), (0.5, 0.7), (0.6, 2.0)])
def test_scorers_needed_like_these_are_those_of_the_formula(noise) -> None:
    rng = np.random.default_rng(6)
    skill = rng.standard_normal(15)
    x1, x2, y = (skill + s * rng.standard_normal(15) for s in (*noise, 0.5))
    t1, t2, t12 = (float(KENDALL(a, b)[0]) for a, b in ((x1, y), (x2, y), (x1, x2)))
    found = scorers_needed_like(x1, x2, y)
    assert found == pytest.approx(scorers_needed(t1, t2, tau_between=t12), rel=0.12)
    assert scorers_needed_like(x2, x1, y) == found
    assert scorers_needed_like(x1, x2, y, power=0.95) > found


def test_scorers_needed_where_two_are_one_or_nearly() -> None:
    x, _, y = half_blind()
    assert scorers_needed_like(x, 2 * x + 1, y) is None
    # Another order with the same τ, but for two neighbours: 2 of 1,770 pairs, in units of τ.
    order = np.arange(60.0)
    first = np.random.default_rng(0).permutation(60).astype(float)
    second = 59 - first[::-1]
    lower, upper = (int(np.flatnonzero(second == at)[0]) for at in (30, 31))
    second[[lower, upper]] = second[[upper, lower]]
    one, other = (float(KENDALL(x, order)[0]) for x in (first, second))
    assert abs(one - other) == pytest.approx(2 / 1_770)
    assert scorers_needed_like(first, second, order) is None, "over a million"
