import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palate.metrics import (
    accuracy,
    accuracy_bounds,
    concordance_values,
    mirrored_values,
    outcome_counts,
    strict_accuracy,
)

NAN = math.nan
OUTCOMES = st.lists(st.sampled_from([0.0, 0.5, 1.0, NAN]), min_size=1, max_size=40)
MARGINS = st.lists(
    st.tuples(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6), st.floats(0.01, 100)), min_size=1
)


def test_hand_worked() -> None:
    values = [1, 1, 1, 0.5, 0, NAN, NAN, 0]
    counts = outcome_counts(values)
    assert (counts.chosen, counts.rejected, counts.ties, counts.unscored) == (3, 2, 1, 2)
    assert (counts.scored, counts.total) == (6, 8)
    assert accuracy(values, list("aabbccdd")).value == pytest.approx(3.5 / 6)
    assert strict_accuracy(values) == 3 / 8
    assert accuracy_bounds(values) == (3.5 / 8, 5.5 / 8)


def test_nothing_scored_and_nothing_at_all() -> None:
    assert accuracy([NAN, NAN], ["a", "b"]).value is None
    assert strict_accuracy([NAN, NAN]) == 0
    assert accuracy_bounds([NAN, NAN]) == (0, 1)
    assert strict_accuracy([]) is None
    assert accuracy_bounds([]) is None


def test_shares_count_by_their_side_and_add_by_their_size() -> None:
    values = [0.75, 0.5, 0.125, 1, NAN]
    counts = outcome_counts(values)
    assert (counts.chosen, counts.rejected, counts.ties, counts.unscored) == (2, 1, 1, 1)
    assert accuracy(values, list("abcde")).value == 2.375 / 4
    assert strict_accuracy(values) == 2 / 5
    assert accuracy_bounds(values) == pytest.approx((2.375 / 5, 3.375 / 5))
    assert mirrored_values([0.75, 0.125], [0.25, 0.5]).tolist() == [0.5, 0.3125]


def test_other_numbers_are_no_outcomes() -> None:
    for use in (outcome_counts, strict_accuracy, accuracy_bounds):
        for wrong in (1.25, -0.1):
            with pytest.raises(ValueError, match="outcomes must be"):
                use([1, wrong])
    with pytest.raises(ValueError, match="outcomes must be"):
        accuracy([1.3], ["a"])
    with pytest.raises(ValueError, match="expected values in"):
        mirrored_values([-0.3], [1])


@given(OUTCOMES)
def test_bounds_hold_accuracy_and_strict_is_below(values: list[float]) -> None:
    bounds, strict = accuracy_bounds(values), strict_accuracy(values)
    value = accuracy(values, list(range(len(values)))).value
    assert bounds is not None
    assert strict is not None
    assert strict <= bounds[0] <= bounds[1]
    if value is not None:
        assert bounds[0] - 1e-12 <= value <= bounds[1] + 1e-12


@given(OUTCOMES)
def test_bounds_are_what_the_unscored_would_make_of_it(values: list[float]) -> None:
    users = list(range(len(values)))
    worst = accuracy(np.nan_to_num(values, nan=0.0), users).value
    best = accuracy(np.nan_to_num(values, nan=1.0), users).value
    assert accuracy_bounds(values) == pytest.approx((worst, best))


@given(st.integers(1, 30), st.integers(1, 5))
def test_a_constant_scorer_ties_everywhere_and_gets_a_half(rows: int, users: int) -> None:
    e = accuracy([0.5] * rows, [i % users for i in range(rows)])
    assert (e.value, e.low, e.high, e.p) == (0.5, 0.5, 0.5, 1.0)


def test_mirrored_values() -> None:
    v_a, v_b = [1, 1, 0, 0.5, 1, NAN], [1, 0, 0, 0.5, 0.5, 1]
    assert mirrored_values(v_a, v_b)[:5].tolist() == [1, 0.5, 0, 0.5, 0.75]
    assert math.isnan(mirrored_values(v_a, v_b)[5])
    with pytest.raises(ValueError, match="v_a 1, v_b 2"):
        mirrored_values([1], [1, 0])


@given(OUTCOMES)
def test_mirrored_accuracy_is_a_half_and_half_of_both_right_less_both_wrong(
    values: list[float],
) -> None:
    v = np.array([x for x in values if x in (0, 1)])
    a, b = v[: v.size // 2], v[v.size // 2 : v.size // 2 * 2]
    if a.size:
        both = np.mean(a * b) - np.mean((1 - a) * (1 - b))
        assert mirrored_values(a, b).mean() == pytest.approx(0.5 + both / 2)


def test_shift_values_and_their_ties() -> None:
    got = concordance_values([1.0, 1.0, 1.0, 0.0, 5e-7, -2e-6], [0.0, 1.0, 2.0, NAN, 0.0, 0.0])
    assert got[[0, 1, 2, 4, 5]].tolist() == [1, 0.5, 0, 0.5, 0]
    assert math.isnan(got[3])
    with pytest.raises(ValueError, match="finite"):
        concordance_values([math.inf], [0.0])
    with pytest.raises(ValueError, match="margin_a 1, margin_b 2"):
        concordance_values([1.0], [1.0, 2.0])


@given(MARGINS)
def test_shift_is_turned_by_exchanging_the_users(margins: list[tuple[float, float, float]]) -> None:
    a, b, _ = (list(column) for column in zip(*margins, strict=True))
    assert (concordance_values(a, b) + concordance_values(b, a)).tolist() == [1.0] * len(a)


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=20))
def test_a_blind_scorer_shifts_nothing(margins: list[float]) -> None:
    assert set(concordance_values(margins, margins).tolist()) == {0.5}
