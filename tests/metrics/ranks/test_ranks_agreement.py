import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from palate.errors import UsageError
from palate.metrics.ranks import rank_agreement
from palate.metrics.ranks.null_distribution import null_distribution
from palate.metrics.ranks.statistics import KENDALL, SPEARMAN

ALL = {s.name: s for s in (KENDALL, SPEARMAN)}
UNTIED = st.integers(3, 7).flatmap(lambda n: st.permutations(list(range(n))))
TIED = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=3, max_size=5)


def by_enumeration(name: str, x: list[float], y: list[float]) -> float:
    statistic = ALL[name]
    observed = float(statistic(np.array(x), np.array(y))[0])
    values = [float(statistic(np.array(o), np.array(y))[0]) for o in itertools.permutations(x)]
    return float(np.mean([abs(v) >= abs(observed) - 1e-9 for v in values]))


@settings(max_examples=25)
@given(TIED)
def test_exact_p_is_that_of_all_orders_with_ties(rows) -> None:
    x, y = [float(a) for a, _ in rows], [float(b) for _, b in rows]
    for name, statistic in ALL.items():
        found = null_distribution(statistic, np.array(x), np.array(y))
        if math.isnan(float(statistic(np.array(x), np.array(y))[0])):
            assert (found.p, found.mean, found.low) == (None, None, None)
        else:
            assert found.p == pytest.approx(by_enumeration(name, x, y))
            assert found.orders == math.factorial(len(x))


@given(UNTIED)
def test_exact_p_of_kendall_is_scipys(order) -> None:
    x, y = np.arange(float(len(order))), np.array(order, dtype=float)
    oracle = stats.kendalltau(x, y, method="exact").pvalue
    assert null_distribution(ALL["kendall"], x, y).p == pytest.approx(oracle)


def test_six_models_published() -> None:
    # Spearman 9/35 and 13/35, as printed for six reward models.
    y = np.arange(6.0)
    orders = np.array(list(itertools.permutations(range(6))), dtype=float)
    rho = ALL["spearman"](orders, y)
    for target, p in ((9 / 35, 0.66), (13 / 35, 0.50)):
        x = orders[int(np.argmin(np.abs(rho - target)))]
        assert null_distribution(ALL["spearman"], x, y).p == pytest.approx(p, abs=0.005)


def test_what_chance_gets() -> None:
    found = {a.statistic: a.chance for a in rank_agreement(range(6), range(6))}
    assert all(c.exact and c.orders == 720 for c in found.values())
    assert [found[n].mean for n in ALL] == [0, 0]
    assert [found[n].p for n in ALL] == [2 / 720, 2 / 720]
    values = np.sort(ALL["kendall"](np.array(list(itertools.permutations(range(6))), float),
                                    np.arange(6.0)))  # fmt: skip
    low, high = found["kendall"].low, found["kendall"].high
    assert np.mean(values <= low + 1e-9) >= 0.025 > np.mean(values < low - 1e-9)
    assert np.mean(values <= high + 1e-9) >= 0.975 > np.mean(values < high - 1e-9)


def test_drawn_orders_come_close_to_the_exact_p() -> None:
    rng = np.random.default_rng(4)
    x = np.arange(12.0)
    y = x + rng.normal(0, 6, 12)
    exact = stats.kendalltau(x, y, method="exact").pvalue
    found = null_distribution(ALL["kendall"], x, y, draws=20_000)
    assert not found.exact
    assert found.p == pytest.approx(exact, abs=0.01)
    assert found.p == null_distribution(ALL["kendall"], x, y, draws=20_000).p
    assert found.p != null_distribution(ALL["kendall"], x, y, draws=20_000, seed=1).p
    assert null_distribution(ALL["kendall"], x, x, draws=99).p == 1 / 100


@settings(max_examples=10)
@given(st.lists(st.integers(0, 20), min_size=9, max_size=12), st.randoms(use_true_random=False))
def test_the_listing_of_scorers_cannot_change_a_drawn_p(figures, random) -> None:
    x, y = np.array(figures, dtype=float), np.arange(float(len(figures)))
    order = random.sample(range(len(figures)), len(figures))
    for statistic in ALL.values():
        a = null_distribution(statistic, x, y, draws=200)
        b = null_distribution(statistic, x[order], y[order], draws=200)
        assert a == b


def test_a_benchmark_that_ranks_nothing() -> None:
    found = {a.statistic: a for a in rank_agreement([0.5] * 4, [1, 2, 3, 4])}
    for name in ALL:
        assert (found[name].value, found[name].chance.p) == (None, None)
        assert found[name].interval.low is None


def test_everything_at_once() -> None:
    found = rank_agreement([1, 2, 3, 4, 5, 6], [3, 1, 2, 6, 5, 4])
    assert [a.statistic for a in found] == ["kendall", "spearman"]
    for a in found:
        assert a.n == 6
        assert a.value is not None
        assert a.interval.low is not None
        assert a.interval.high is not None
        assert a.interval.low <= a.value <= a.interval.high <= 1
    assert found == rank_agreement([1, 2, 3, 4, 5, 6], [3, 1, 2, 6, 5, 4])


def test_bad_input() -> None:
    with pytest.raises(UsageError, match="2 scorers"):
        rank_agreement([1, 2], [1, 2])
    with pytest.raises(UsageError, match="scorer 1 "):
        rank_agreement([1, math.nan, 3], [1, 2, 3])
    with pytest.raises(UsageError, match="scorer 2 "):
        rank_agreement([1, 2, 3], [1, 2, math.inf])
    with pytest.raises(ValueError, match="figures 3, downstream 4"):
        rank_agreement([1, 2, 3], [1, 2, 3, 4])


def test_rounding_ranks_nothing() -> None:
    dust = [0.3, 0.1 + 0.2, 0.30000000000000004]
    assert [one.value for one in rank_agreement([1, 2, 3], dust)] == [None, None]
    kendall = rank_agreement([1, 2, 3, 4], [0.1 + 0.2, 0.3, 0.5, 0.4])[0]
    assert kendall.value == rank_agreement([1, 2, 3, 4], [1, 1, 3, 2])[0].value
