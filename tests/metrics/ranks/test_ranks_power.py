import itertools
import math

import numpy as np
import pytest
from scipy import stats

from palate.errors import UsageError
from palate.metrics.ranks import rank_power
from palate.metrics.ranks.power import least_significant_tau
from palate.metrics.ranks.statistics import KENDALL, SPEARMAN


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


def test_bad_input() -> None:
    for n in (2, 201):
        with pytest.raises(UsageError, match="3 to 200"):
            rank_power(n)
