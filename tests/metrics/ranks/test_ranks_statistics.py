import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from palate.metrics.ranks.statistics import KENDALL, SPEARMAN, RankStatistic

ALL = {s.name: s for s in (KENDALL, SPEARMAN)}
TIED = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=3, max_size=7)
ORDER = st.integers(3, 8).flatmap(lambda n: st.permutations(list(range(n))))


def value(name: str, x, y) -> float:
    return float(ALL[name](np.array(x, dtype=float), np.array(y, dtype=float))[0])


def columns(rows) -> tuple[list[float], list[float]]:
    return [float(a) for a, _ in rows], [float(b) for _, b in rows]


@given(TIED)
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
        assert value(name, x, [math.exp(v) for v in y]) == pytest.approx(base, nan_ok=True)


@pytest.mark.parametrize("statistic", ALL.values(), ids=lambda s: s.name)
def test_many_rows_in_blocks_equal_one_by_one(
    statistic: RankStatistic, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 6, (50, 7)).astype(float), rng.integers(0, 6, (50, 7)).astype(float)
    singly = [float(statistic(a, b)[0]) for a, b in zip(x, y, strict=True)]
    against_one = [float(statistic(a, y[0])[0]) for a in x]
    from_one = [float(statistic(x[0], b)[0]) for b in y]
    monkeypatch.setattr("palate.metrics.ranks.statistics.CELLS", 49 * 8)
    assert statistic(x, y) == pytest.approx(np.array(singly), nan_ok=True)
    assert statistic(x, y[0]) == pytest.approx(np.array(against_one), nan_ok=True)
    assert statistic(x[0], y) == pytest.approx(np.array(from_one), nan_ok=True)
