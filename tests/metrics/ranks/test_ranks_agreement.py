import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from palate.errors import UsageError
from palate.metrics import rank_agreement, rank_power
from palate.metrics.rank_power import least_significant_tau
from palate.metrics.ranks import (
    KENDALL,
    SPEARMAN,
    Interval,
    ScorerPopulation,
    null_distribution,
    range_over_scorers,
)

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


STATISTIC_TIED = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=3, max_size=7)
ORDER = st.integers(3, 8).flatmap(lambda n: st.permutations(list(range(n))))


def value(name: str, x, y) -> float:
    return float(ALL[name](np.array(x, dtype=float), np.array(y, dtype=float))[0])


def columns(rows) -> tuple[list[float], list[float]]:
    return [float(a) for a, _ in rows], [float(b) for _, b in rows]


@given(STATISTIC_TIED)
def test_correlations_equal_scipys_with_ties(rows) -> None:
    x, y = columns(rows)
    for name, oracle in (("kendall", stats.kendalltau), ("spearman", stats.spearmanr)):
        if len(set(x)) > 1 and len(set(y)) > 1:
            assert value(name, x, y) == pytest.approx(oracle(x, y).statistic, abs=1e-12)
        else:
            assert math.isnan(value(name, x, y))


@given(ORDER)
def test_symmetry_and_reversal(order) -> None:
    x, y = list(range(len(order))), list(order)
    for name in ALL:
        assert value(name, x, y) == pytest.approx(value(name, y, x))
        turned = value(name, x, [-v for v in y])
        assert turned == pytest.approx(-value(name, x, y))
    for statistic in ALL.values():
        assert float(statistic(np.array(x), np.array(x))[0]) == pytest.approx(1)
        assert -1 <= value(statistic.name, x, y) <= 1
    for name in ALL:
        assert value(name, x, [-v for v in x]) == pytest.approx(-1)


@given(STATISTIC_TIED, st.randoms(use_true_random=False))
def test_only_the_order_counts_and_not_the_listing(rows, random) -> None:
    x, y = columns(rows)
    shuffled = random.sample(range(len(x)), len(x))
    for name in ALL:
        base = value(name, x, y)
        curved = [math.exp(v) * 3 - 1 for v in x]
        assert value(name, curved, y) == pytest.approx(base, nan_ok=True)
        again = value(name, [x[i] for i in shuffled], [y[i] for i in shuffled])
        assert again == pytest.approx(base, nan_ok=True)
        assert value(name, x, [math.exp(v) for v in y]) == pytest.approx(base, nan_ok=True)


@pytest.mark.parametrize("statistic", ALL.values(), ids=lambda s: s.name)
def test_many_rows_in_blocks_equal_one_by_one(statistic, monkeypatch):
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 6, (50, 7)).astype(float), rng.integers(0, 6, (50, 7)).astype(float)
    singly = [float(statistic(a, b)[0]) for a, b in zip(x, y, strict=True)]
    against_one = [float(statistic(a, y[0])[0]) for a in x]
    from_one = [float(statistic(x[0], b)[0]) for b in y]
    monkeypatch.setattr("palate.metrics.ranks.CELLS", 49 * 8)
    assert statistic(x, y) == pytest.approx(np.array(singly), nan_ok=True)
    assert statistic(x, y[0]) == pytest.approx(np.array(against_one), nan_ok=True)
    assert statistic(x[0], y) == pytest.approx(np.array(from_one), nan_ok=True)


def covers(found: Interval, truth: float) -> bool:
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


@pytest.mark.parametrize("n", [4, 6, 9, 15])
def test_critical_tau_is_scipys_exact_test(n: int) -> None:
    found = least_significant_tau(n)
    pairs = n * (n - 1) // 2
    p = {
        1 - 2 * d / pairs: stats.kendalltau(range(n), other, method="exact").pvalue
        for d, other in ((d, order_with(n, d)) for d in range(pairs // 2 + 1))
    }
    expected = min((tau for tau, value in p.items() if value <= 0.05), default=None)
    assert found == (None if expected is None else pytest.approx(expected))


def order_with(n: int, inversions: int) -> list[int]:
    order: list[int] = []
    for value in range(n):
        back = min(inversions, value)
        order.insert(value - back, value)
        inversions -= back
    return order


def test_what_six_scorers_can_show() -> None:
    six = rank_power(6)
    assert six.critical_tau == pytest.approx(13 / 15)
    assert six.critical_rho == pytest.approx(0.886, abs=5e-4)
    assert 0.85 < (six.minimum_detectable_tau or 0) < 0.92
    (at_zero, zero), (_, half), (top, one) = six.intervals
    assert abs(at_zero) < 0.1
    assert (zero.low or 0) < -0.5
    assert (zero.high or 0) > 0.5
    assert (half.low or 0) < 0 < (half.high or 0)
    assert top == 1
    assert (one.low or 0) < 0.5


def test_critical_rho_by_all_orders() -> None:
    five = np.arange(5.0)
    orders = np.array(list(itertools.permutations(range(5))), dtype=float)
    rho = np.abs(SPEARMAN(orders, five))
    critical = rank_power(5).critical_rho
    assert np.mean(rho >= (critical or 0) - 1e-9) <= 0.05
    assert rank_power(3).critical_rho is None
    assert rank_power(4).critical_tau is None
    assert rank_power(4).minimum_detectable_tau is None
    assert rank_power(9).critical_rho is None


def test_more_scorers_show_more() -> None:
    found = [rank_power(n) for n in (6, 10, 20)]
    for a, b in itertools.pairwise(found):
        assert (a.critical_tau or 1) > (b.critical_tau or 1)
        assert (a.minimum_detectable_tau or 1) > (b.minimum_detectable_tau or 1)
        for (_, wide), (_, narrow) in zip(a.intervals, b.intervals, strict=True):
            assert (wide.high or 0) - (wide.low or 0) > (narrow.high or 0) - (narrow.low or 0)


def test_the_detectable_tau_is_found_as_often_as_promised() -> None:
    eight = rank_power(8)
    r = math.sin(math.pi * (eight.minimum_detectable_tau or 0) / 2)
    z = np.random.default_rng(5).normal(size=(4_000, 2, 8))
    tau = KENDALL(z[:, 0], r * z[:, 0] + math.sqrt(1 - r * r) * z[:, 1])
    assert np.mean(np.abs(tau) >= (eight.critical_tau or 0) - 1e-9) == pytest.approx(0.8, abs=0.03)


def test_bad_input_of_power() -> None:
    for n in (2, 201):
        with pytest.raises(UsageError, match="3 to 200"):
            rank_power(n)
