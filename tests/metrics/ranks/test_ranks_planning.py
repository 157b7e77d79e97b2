import itertools
import math

import numpy as np
import pytest
from scipy import stats

from palate.errors import UsageError
from palate.metrics.ranks import (
    critical_tau,
    resolution,
    scorers_needed,
    statistics,
    tau_covariance,
    tau_variance,
)
from palate.metrics.ranks.difference import _exchanges, _swap_p

KENDALL, SPEARMAN = statistics()[:2]


def population(taus: tuple[float, float, float]) -> np.ndarray:
    # τ of the two benchmarks with downstream, and with each other.
    r1, r2, r12 = (math.sin(math.pi * t / 2) for t in taus)
    return np.array([[1, r12, r1], [r12, 1, r2], [r1, r2, 1]])


@pytest.mark.parametrize("n", [4, 6, 9, 15])
def test_critical_tau_is_scipys_exact_test(n: int) -> None:
    found = critical_tau(n)
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
    six = resolution(6)
    assert six.smallest_p == 2 / 720
    assert six.critical_tau == pytest.approx(13 / 15)
    assert six.critical_rho == pytest.approx(0.886, abs=5e-4)
    assert 0.85 < (six.detectable_tau or 0) < 0.92
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
    critical = resolution(5).critical_rho
    assert np.mean(rho >= (critical or 0) - 1e-9) <= 0.05
    assert resolution(3).critical_rho is None
    assert resolution(4).critical_tau is None
    assert resolution(4).detectable_tau is None
    assert resolution(9).critical_rho is None


def test_more_scorers_show_more() -> None:
    found = [resolution(n) for n in (6, 10, 20)]
    for a, b in itertools.pairwise(found):
        assert a.smallest_p > b.smallest_p
        assert (a.critical_tau or 1) > (b.critical_tau or 1)
        assert (a.detectable_tau or 1) > (b.detectable_tau or 1)
        for (_, wide), (_, narrow) in zip(a.intervals, b.intervals, strict=True):
            assert (wide.high or 0) - (wide.low or 0) > (narrow.high or 0) - (narrow.low or 0)


def test_the_detectable_tau_is_found_as_often_as_promised() -> None:
    eight = resolution(8)
    r = math.sin(math.pi * (eight.detectable_tau or 0) / 2)
    z = np.random.default_rng(5).normal(size=(4_000, 2, 8))
    tau = KENDALL(z[:, 0], r * z[:, 0] + math.sqrt(1 - r * r) * z[:, 1])
    assert np.mean(np.abs(tau) >= (eight.critical_tau or 0) - 1e-9) == pytest.approx(0.8, abs=0.03)


@pytest.mark.parametrize(
    "taus", [(0.7, 0.4, 0.3), (0.5, 0.2, 0.6), (0.8, 0.8, 0.9), (-0.4, 0.3, 0)]
)
@pytest.mark.parametrize("n", [6, 20])
def test_variance_and_covariance_are_those_of_simulated_scorers(taus, n: int) -> None:
    drawn = np.random.default_rng(0).multivariate_normal(np.zeros(3), population(taus), (30_000, n))
    first, second = (KENDALL(drawn[..., i], drawn[..., 2]) for i in (0, 1))
    found = np.cov(first, second)
    assert found[0, 0] == pytest.approx(tau_variance(taus[0], n), rel=0.04)
    assert found[1, 1] == pytest.approx(tau_variance(taus[1], n), rel=0.04)
    size = math.sqrt(found[0, 0] * found[1, 1])
    assert found[0, 1] == pytest.approx(tau_covariance(*taus, n), abs=0.025 * size)


def test_variance_without_agreement_is_the_textbooks() -> None:
    for n in (3, 10, 50):
        assert tau_variance(0, n) == pytest.approx(2 * (2 * n + 5) / (9 * n * (n - 1)))


def test_scorers_needed_solves_its_own_equation() -> None:
    n = scorers_needed(0.7, 0.4, tau_between=0.6)
    z = stats.norm.ppf(0.975) + stats.norm.ppf(0.8)

    def se(m: int) -> float:
        both = tau_variance(0.7, m) + tau_variance(0.4, m)
        return math.sqrt(both - 2 * tau_covariance(0.7, 0.4, 0.6, m))

    assert z * se(n) <= 0.3 < z * se(n - 1)
    assert scorers_needed(0.4, 0.7, tau_between=0.6) == n


def test_scorers_needed_moves_the_right_way() -> None:
    base = scorers_needed(0.7, 0.4)
    assert scorers_needed(0.7, 0.5) > base
    assert scorers_needed(0.7, 0.4, power=0.9) > base
    assert scorers_needed(0.7, 0.4, alpha=0.01) > base
    assert scorers_needed(0.7, 0.4, tau_between=0.65) < base


@pytest.mark.parametrize("taus", [(0.7, 0.4, None), (0.7, 0.4, 0.6), (0.9, 0.6, 0.62)])
def test_that_many_scorers_do_find_the_difference(taus) -> None:
    first, second, between = taus
    n = scorers_needed(first, second, tau_between=between)
    r1, r2 = (math.sin(math.pi * t / 2) for t in (first, second))
    tau_between = 2 / math.pi * math.asin(r1 * r2) if between is None else between
    matrix = population((first, second, tau_between))
    rng = np.random.default_rng(1)
    worlds, found = 200, 0
    for _ in range(worlds):
        drawn = rng.multivariate_normal(np.zeros(3), matrix, n).T
        exchanged, exact = _exchanges(*drawn, seed=0, draws=199)
        found += _swap_p(KENDALL, exchanged, exact=exact) <= 0.05
    assert found / worlds == pytest.approx(0.83, abs=0.1)


def test_bad_input() -> None:
    for n in (2, 201):
        with pytest.raises(UsageError, match="3 to 200"):
            resolution(n)
    with pytest.raises(UsageError, match="alpha"):
        resolution(6, alpha=0)
    with pytest.raises(UsageError, match="equal"):
        scorers_needed(0.5, 0.5)
    with pytest.raises(UsageError, match=r"in \(-1, 1\)"):
        scorers_needed(1.0, 0.5)
    with pytest.raises(UsageError, match="no population"):
        scorers_needed(0.9, 0.1, tau_between=0.9)
    with pytest.raises(UsageError, match="would be needed"):
        scorers_needed(0.5, 0.5001)
    with pytest.raises(UsageError, match="power"):
        scorers_needed(0.5, 0.4, power=1)
