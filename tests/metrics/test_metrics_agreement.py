import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.proportion import proportion_confint

from palate.metrics import position_consistency

NAN = math.nan
VOTES = st.lists(
    st.tuples(st.sampled_from([0.0, 0.5, 1.0]), st.sampled_from([0.0, 0.5, 1.0])), min_size=1
)


def test_hand_worked() -> None:
    # First-first twice, second-second once, alike three times, a tie against a vote, one unread.
    c = position_consistency([1, 1, 0, 1, 0, 0.5, 0.5, NAN], [0, 0, 1, 1, 0, 0.5, 1, 1])
    assert (c.n, c.first_twice, c.second_twice) == (7, 2, 1)
    assert c.consistent == 3 / 7
    assert c.bias == pytest.approx((1 + 1 - 1 - 0.5) / 14)
    assert c.bias_p == 1


def test_a_judge_that_always_takes_the_first() -> None:
    c = position_consistency([1] * 10, [0] * 10)
    assert (c.consistent, c.bias, c.first_twice) == (0, 0.5, 10)
    assert c.bias_p == pytest.approx(2 * 0.5**10)


@given(VOTES)
def test_bias_p_against_scipy(votes: list[tuple[float, float]]) -> None:
    c = position_consistency(*(list(column) for column in zip(*votes, strict=True)))
    n = c.first_twice + c.second_twice
    expected = stats.binomtest(c.first_twice, n).pvalue if n else 1.0
    assert c.bias_p == pytest.approx(expected)


@given(VOTES)
def test_naming_the_other_response_changes_nothing_but_exchanging_orders_turns_the_bias(
    votes: list[tuple[float, float]],
) -> None:
    first, second = (np.array(column) for column in zip(*votes, strict=True))
    c = position_consistency(first, second)
    assert c.bias is not None
    # The other response stands first in the second order.
    assert position_consistency(1 - second, 1 - first) == c
    turned = position_consistency(second, first)
    assert turned.consistent == c.consistent
    assert turned.bias == pytest.approx(-c.bias)


@given(VOTES)
def test_share_and_interval_against_statsmodels(votes: list[tuple[float, float]]) -> None:
    c = position_consistency(*(list(column) for column in zip(*votes, strict=True)))
    same = sum(first == second for first, second in votes)
    low, high = proportion_confint(same, len(votes), method="wilson")
    assert (c.consistent, c.low, c.high) == pytest.approx((same / len(votes), low, high), abs=1e-9)


def test_edges() -> None:
    nothing = position_consistency([NAN], [1])
    assert (nothing.consistent, nothing.bias, nothing.n) == (None, None, 0)
    assert position_consistency([1] * 5, [0] * 5).low == 0
    assert position_consistency([1] * 5, [1] * 5).high == 1
    with pytest.raises(ValueError, match="outcomes must be"):
        position_consistency([2], [1])
    with pytest.raises(ValueError, match="columns differ"):
        position_consistency([1], [1, 0])
