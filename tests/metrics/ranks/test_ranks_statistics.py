import itertools
import math
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn.metrics import ndcg_score

from palate.errors import UsageError
from palate.metrics.ranks.statistics import RankStatistic, statistics

ALL = {s.name: s for s in statistics()}
CORRELATIONS = ["kendall", "spearman", "weighted"]
TIED = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=3, max_size=7)
ORDER = st.integers(3, 8).flatmap(lambda n: st.permutations(list(range(n))))


def value(name: str, x, y) -> float:
    return float(ALL[name](np.array(x, dtype=float), np.array(y, dtype=float))[0])


def columns(rows) -> tuple[list[float], list[float]]:
    return [float(a) for a, _ in rows], [float(b) for _, b in rows]


def rbo_by_hand(first: list[int], second: list[int], p: float) -> float:
    n = len(first)
    shared = [len({*first[:d]} & {*second[:d]}) / d for d in range(1, n + 1)]
    series = sum(a * p**d for d, a in enumerate(shared, start=1))
    return shared[-1] * p**n + (1 - p) / p * series


def rankings(figures: list[float]) -> list[list[int]]:
    """Every order, best first, that breaks the ties of the figures."""
    orders = itertools.permutations(range(len(figures)))
    return [list(o) for o in orders if all(figures[a] >= figures[b] for a, b in
                                           itertools.pairwise(o))]  # fmt: skip


@given(TIED)
def test_correlations_equal_scipys_with_ties(rows) -> None:
    x, y = columns(rows)
    for name, oracle in (
        ("kendall", stats.kendalltau),
        ("weighted", stats.weightedtau),
        ("spearman", stats.spearmanr),
    ):
        if len(set(x)) > 1 and len(set(y)) > 1:
            assert value(name, x, y) == pytest.approx(oracle(x, y).statistic, abs=1e-12)
        else:
            assert math.isnan(value(name, x, y))


def test_weighted_tau_hand_worked() -> None:
    # Best three scorers in the order b a c instead of a b c, weights 1, 1/2, 1/3: the pair ab is
    # discordant. By either ranking the pairs weigh 3/2 (ab), and 4/3 and 5/6, in some order.
    assert value("weighted", [3, 2, 1], [2, 3, 1]) == pytest.approx(
        (4 / 3 + 5 / 6 - 3 / 2) / (11 / 3)
    )
    # The same exchange at the bottom costs less: 5/6 instead of 3/2.
    assert value("weighted", [3, 2, 1], [3, 1, 2]) == pytest.approx(
        (3 / 2 + 4 / 3 - 5 / 6) / (11 / 3)
    )


def test_rbo_published_and_hand_worked() -> None:
    up = [1.0, 2, 3, 4, 5]
    assert value("rbo", up, up[::-1]) == pytest.approx(0.7378, abs=5e-5)
    # Two scorers exchanged at the top of three, p = 0.9: agreements 0, 1, 1.
    expected = 0.9**3 + 0.1 / 0.9 * (0.81 + 0.729)
    assert value("rbo", [3, 2, 1], [2, 3, 1]) == pytest.approx(expected)


@given(ORDER, st.sampled_from([0.5, 0.8, 0.9, 0.98]))
def test_rbo_equals_the_definition(order, p) -> None:
    n = len(order)
    first, second = list(range(n)), list(order)
    x = [float(-first.index(i)) for i in range(n)]
    y = [float(-second.index(i)) for i in range(n)]
    rbo = next(s for s in statistics(rbo_p=p) if s.name == "rbo")
    found = float(rbo(np.array(x), np.array(y))[0])
    assert found == pytest.approx(rbo_by_hand(first, second, p))


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=3, max_size=5))
def test_rbo_and_ndcg_of_ties_are_means_over_all_ways_to_break_them(rows) -> None:
    x, y = columns(rows)
    pairs = [(a, b) for a in rankings(x) for b in rankings(y)]
    expected = np.mean([rbo_by_hand(a, b, 0.9) for a, b in pairs])
    assert value("rbo", x, y) == pytest.approx(float(expected))
    if len(set(y)) > 1:
        gains = np.array(y) - min(y)
        discount = 1 / np.log2(np.arange(2, len(y) + 2))
        best = float(np.sort(gains)[::-1] @ discount)
        broken = [float(gains[a] @ discount) / best for a in rankings(x)]
        assert value("ndcg", x, y) == pytest.approx(float(np.mean(broken)))
    else:
        assert math.isnan(value("ndcg", x, y))


@given(TIED)
def test_ndcg_equals_scikit_learns(rows) -> None:
    x, y = columns(rows)
    gains = np.array(y) - min(y)
    if gains.any():
        assert value("ndcg", x, y) == pytest.approx(ndcg_score([gains], [x]))


@pytest.mark.parametrize(
    ("gain", "mean", "reached"), [("rank", 0.804, 0.15), ("exponential", 0.688, 0.12)]
)
def test_ndcg_of_six_random_rankings(gain, mean, reached) -> None:
    ndcg = next(s for s in statistics(gain=gain) if s.name == "ndcg")
    orders = np.array(list(itertools.permutations(range(6))), dtype=float)
    values = ndcg(orders, np.arange(6.0))
    assert values.mean() == pytest.approx(mean, abs=5e-4)
    assert np.mean(values >= 0.918) == pytest.approx(reached, abs=0.005)


def test_exponential_gains_by_hand() -> None:
    ndcg = next(s for s in statistics(gain="exponential") if s.name == "ndcg")
    # Gains 3, 1, 0; ranked second, first, third.
    second = 1 / math.log2(3)
    found = float(ndcg(np.array([2.0, 3, 1]), np.array([0.9, 0.5, 0.1]))[0])
    assert found == pytest.approx((1 + 3 * second) / (3 + second))
    # Hundreds of ranks do not overflow.
    assert float(ndcg(np.arange(2_000.0), np.arange(2_000.0))[0]) == pytest.approx(1)


@given(ORDER)
def test_symmetry_and_reversal(order) -> None:
    x, y = list(range(len(order))), list(order)
    for name in [*CORRELATIONS, "rbo"]:
        assert value(name, x, y) == pytest.approx(value(name, y, x))
    for name in ("kendall", "spearman"):
        turned = value(name, x, [-v for v in y])
        assert turned == pytest.approx(-value(name, x, y))
    for statistic in ALL.values():
        assert float(statistic(np.array(x), np.array(x))[0]) == pytest.approx(1)
        assert (-1 if statistic.two_sided else 0) <= value(statistic.name, x, y) <= 1
    for name in CORRELATIONS:
        assert value(name, x, [-v for v in x]) == pytest.approx(-1)


@given(TIED, st.randoms(use_true_random=False))
def test_only_the_order_counts_and_not_the_listing(rows, random) -> None:
    x, y = columns(rows)
    shuffled = random.sample(range(len(x)), len(x))
    for name in ALL:
        base = value(name, x, y)
        curved = [math.exp(v) * 3 - 1 for v in x]
        assert value(name, curved, y) == pytest.approx(base, nan_ok=True)
        again = value(name, [x[i] for i in shuffled], [y[i] for i in shuffled])
        assert again == pytest.approx(base, nan_ok=True)
        if name != "ndcg":
            assert value(name, x, [math.exp(v) for v in y]) == pytest.approx(base, nan_ok=True)
        else:
            assert value(name, x, [5 * v + 2 for v in y]) == pytest.approx(base, nan_ok=True)


@pytest.mark.parametrize("statistic", statistics(), ids=lambda s: s.name)
def test_many_rows_in_blocks_equal_one_by_one(
    statistic: RankStatistic, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 6, (50, 7)).astype(float), rng.integers(0, 6, (50, 7)).astype(float)
    singly = [float(statistic(a, b)[0]) for a, b in zip(x, y, strict=True)]
    against_one = [float(statistic(a, y[0])[0]) for a in x]
    from_one = [float(statistic(x[0], b)[0]) for b in y]
    # The module, which its function of the same name hides from dotted names.
    room = sys.modules["palate.metrics.ranks.statistics"]
    monkeypatch.setattr(room, "CELLS", 49 * 8)
    assert statistic(x, y) == pytest.approx(np.array(singly), nan_ok=True)
    assert statistic(x, y[0]) == pytest.approx(np.array(against_one), nan_ok=True)
    assert statistic(x[0], y) == pytest.approx(np.array(from_one), nan_ok=True)


def test_settings_are_checked_and_stated() -> None:
    assert [s.setting for s in statistics(rbo_p=0.8, gain="rank")] == [
        None, None, "1/(rank + 1), both rankings' mean", "p = 0.8, extrapolated",
        "gain rank, all ranks",
    ]  # fmt: skip
    with pytest.raises(UsageError, match="RBO"):
        statistics(rbo_p=1)
    with pytest.raises(UsageError, match="shifted, rank, exponential"):
        statistics(gain="square")  # type: ignore[arg-type]
