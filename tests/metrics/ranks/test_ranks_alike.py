import math

import numpy as np
import pytest

from palate.metrics.ranks import scorers_needed_like, statistics, tau_covariance, tau_variance
from palate.metrics.ranks.alike import drawn_alike, level_in_both
from palate.metrics.ranks.difference import agreement_differences

KENDALL = statistics()[0]


def half_blind(n: int = 20, blind: int = 9) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(4)
    skill = rng.standard_normal(n)
    x1, x2, y = (skill + 0.5 * rng.standard_normal(n) for _ in range(3))
    x1, x2 = x1 + 0.5, x2 + 0.5
    x1[:blind] = x2[:blind] = 0.0
    return x1, x2, y


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
    drawn = drawn_alike(*figures, KENDALL, seed=0)
    assert drawn is not None
    for i, j in ((0, 1), (0, 2), (1, 2)):
        mean = float(np.mean(KENDALL(drawn[i], drawn[j])))
        assert mean == pytest.approx(float(KENDALL(figures[i], figures[j])[0]), abs=0.03)


def test_who_is_level_stays_level_with_as_many_below() -> None:
    x1, x2, y = half_blind()
    drawn = drawn_alike(x1, x2, y, KENDALL, seed=0)
    assert drawn is not None
    for x, own in zip((x1, x2), drawn, strict=False):
        assert own.shape == (2_000, 20)
        assert (own[:, -9:] == own[0, -1]).all()
        assert np.mean(own[:, :-9] < own[0, -1]) == pytest.approx(np.mean(x[9:] < 0), abs=0.02)
    assert len(np.unique(drawn[2][0])) == 20, "their picks differ"


def test_without_any_the_spread_is_that_of_the_formula() -> None:
    rng = np.random.default_rng(6)
    skill = rng.standard_normal(15)
    x1, x2, y = (skill + s * rng.standard_normal(15) for s in (0.3, 1.0, 0.5))
    found = agreement_differences(x1, x2, y)[0]
    t1, t2, t12 = (float(KENDALL(a, b)[0]) for a, b in ((x1, y), (x2, y), (x1, x2)))
    variance = tau_variance(t1, 15) + tau_variance(t2, 15) - 2 * tau_covariance(t1, t2, t12, 15)
    assert found.sd == pytest.approx(math.sqrt(variance), rel=0.06)


def test_the_blind_count_for_what_they_are() -> None:
    # Copies of the blind say nothing of which benchmark is better.
    x1, x2, y = half_blind()
    alone = agreement_differences(x1[9:], x2[9:], y[9:])[0]
    whole = agreement_differences(x1, x2, y)[0]
    assert alone.exact
    assert whole.sd is not None
    assert whole.over_scorers.low is not None
    assert whole.over_scorers.low <= whole.value <= (whole.over_scorers.high or 0)
    assert whole.sd < (alone.sd or 0), "more scorers, even blind ones, are less noise"


def test_no_order_no_sets() -> None:
    same, y = np.zeros(5), np.arange(5.0)
    assert drawn_alike(same, y, y, KENDALL, seed=0) is None


def test_scorers_needed_like_these() -> None:
    # Twice the difference needs a quarter, twice the noise four times as many.
    assert scorers_needed_like(0.2, 0.1, 20) == 40
    assert scorers_needed_like(-0.4, 0.1, 20) == 10
    assert scorers_needed_like(0.2, 0.2, 20) == 157
    assert scorers_needed_like(0.9, 0.01, 20) == 3
    assert scorers_needed_like(0.0, 0.1, 20) is None
    assert scorers_needed_like(1e-5, 0.1, 20) is None
