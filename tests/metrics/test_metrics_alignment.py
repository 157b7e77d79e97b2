"""1 − |r − s| of rewards and ratings: by hand, by the error of --target rating, and refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import palate
from palate.errors import UsageError
from palate.metrics import mean_error

unit = st.floats(0, 1)


def test_numbers_give_a_number_and_columns_a_column() -> None:
    one = palate.alignment(0.25, 1)
    assert (one, type(one)) == (0.25, float)
    assert palate.alignment([0.5, 0.5, 1.25, -3], (0.5, 0, 0.75, 0.5)).tolist() == [1, 0.5, 0.5, 0]
    assert palate.alignment(np.float32(0.5), 0.5) == 1.0
    assert palate.alignment([], []).tolist() == []


def test_a_missing_reward_has_no_alignment() -> None:
    assert np.isnan(palate.alignment(None, 0.5))
    several = palate.alignment([None, 0.5, float("nan")], [0.5, 0.5, 0.5])
    assert np.isnan(several).tolist() == [True, False, True]


@given(st.lists(st.tuples(st.floats(-9, 9), unit), min_size=1, max_size=20))
def test_it_is_the_formula_of_every_pair(both: list[tuple[float, float]]) -> None:
    rewards, ratings = zip(*both, strict=True)
    by_hand = [max(0.0, 1 - abs(r - s)) for r, s in both]
    assert palate.alignment(rewards, ratings).tolist() == by_hand
    assert [palate.alignment(r, s) for r, s in both] == by_hand


@given(st.lists(st.tuples(unit, unit, st.sampled_from("abc")), min_size=1, max_size=30))
def test_one_less_its_mean_over_users_is_the_error(rows: list[tuple[float, float, str]]) -> None:
    rewards, ratings, users = zip(*rows, strict=True)
    shares = palate.alignment(rewards, ratings)
    of_users = [np.mean([x for x, u in zip(shares, users, strict=True) if u == name])
                for name in sorted({*users})]  # fmt: skip
    error = mean_error(rewards, ratings, list(users)).value
    assert error == pytest.approx(1 - np.mean(of_users), abs=1e-12)


@pytest.mark.parametrize(
    ("reward", "rating", "problem"),
    [
        (0.5, 4, r"the rating 4 lies outside of the unit scale \[0, 1\]; give \(rating − lowest\)"),
        ([0.5, 0.5], [0.5, -0.25], r"the rating -0.25 lies outside of the unit scale"),
        (0.5, float("nan"), "the rating nan lies outside"),
        (0.5, None, "the rating nan lies outside"),
        ([0.5], [0.5, 0.5], "^alignment: columns differ in length: predictions 1, ratings 2$"),
        ("high", 0.5, "could not convert string to float"),
    ],
)
def test_what_is_no_rating_is_refused_by_name(reward: Any, rating: Any, problem: str) -> None:
    with pytest.raises(UsageError, match=problem) as caught:
        palate.alignment(reward, rating)
    assert "\n" not in str(caught.value)
