"""Policy accuracy: the limits of `tilt`, the unit of relative weights, the choice of a weight."""

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from palate.errors import UsageError
from palate.metrics.policy import (
    INFINITE,
    READINGS,
    PolicyScores,
    best_weight,
    cross_fitted,
    ranked,
    relative_unit,
)

# Quarters are exact in float32, and few of them make ties.
QUARTERS = st.integers(-40, 40).map(lambda k: k / 4)
PAIRS = arrays(np.float64, (12, 2), elements=QUARTERS)
TOKENS = arrays(np.float64, (12, 2), elements=st.sampled_from([1.0, 2.0, 4.0, 8.0]))


def order(scores):
    return 0.5 + np.sign(scores[:, 0] - scores[:, 1]) / 2


@given(PAIRS, PAIRS, TOKENS)
def test_weight_0_is_the_policy_and_the_ratio_the_reward(base, reward, tokens):
    scores = PolicyScores.tilt(base, reward, tokens)
    assert (scores.values(0, "sum") == order(base)).all()
    assert (scores.values(0, "mean") == order(base / tokens)).all()
    for weight in (0, 0.25, 1, 64, INFINITE):
        assert (scores.values(weight, "ratio") == order(reward)).all()


@given(PAIRS, PAIRS, TOKENS)
def test_weight_infinity_is_the_reward_and_its_ties_fall_to_the_policy(base, reward, tokens):
    scores = PolicyScores.tilt(base, reward, tokens)
    tied = reward[:, 0] == reward[:, 1]
    expected = np.where(tied, order(base), order(reward))
    assert (scores.values(INFINITE, "sum") == expected).all()
    # Margins of rewards are at least ¼ and those of the policy at most 20: 256 is large enough.
    assert (scores.values(256, "sum") == expected).all()
    assert (scores.values(INFINITE, "mean") == scores.values(4096, "mean")).all()


@given(PAIRS, PAIRS, TOKENS, st.floats(0, 100), st.sampled_from(READINGS))
def test_swapping_the_two_turns_every_value_round(base, reward, tokens, weight, reading):
    there = PolicyScores.tilt(base, reward, tokens)
    back = there.map(lambda each: each[:, ::-1])
    assert (there.values(weight, reading) + back.values(weight, reading) == 1).all()


@given(
    arrays(np.float64, 6, elements=QUARTERS), arrays(np.float64, 6, elements=QUARTERS),
    st.sampled_from([0.0, 0.5, 3.0, INFINITE]), st.sampled_from(READINGS),
)  # fmt: skip
def test_one_number_each_orders_responses_as_any_two(base, reward, weight, reading):
    tokens = np.array([1.0, 2.0, 4.0, 1.0, 2.0, 4.0])
    single = ranked(PolicyScores.tilt(base, reward, tokens), weight, reading)
    for i in range(6):
        for j in range(i):
            two = [[each[i], each[j]] for each in (base, reward, tokens)]
            (value,) = PolicyScores.tilt(*(np.array([each]) for each in two)).values(
                weight, reading
            )
            assert value == 0.5 + np.sign(np.float32(single[i]) - np.float32(single[j])) / 2


def test_what_is_unscored_has_no_value_at_any_weight():
    scores = PolicyScores.tilt([[1, 2], [np.nan, 2]], [[1, np.nan], [1, 2]], [[1, 1], [1, 1]])
    for weight in (0, 1, INFINITE):
        for reading in READINGS:
            assert np.isnan(scores.values(weight, reading)).all()
    found = ranked(PolicyScores.tilt([1, np.nan, 0], [1, 1, 1], [1, 1, 1]), INFINITE, "sum")
    assert np.isnan(found).tolist() == [False, True, False]
    assert found[0] > found[2]


@given(PAIRS, PAIRS, st.sampled_from([1e-4, 0.5, 3.0, 1e4]))
def test_relative_weights_know_no_units(base, reward, scale):
    apart = reward[:, 0] - reward[:, 1]
    assume(apart.any() and (base[:, 0] - base[:, 1]).any())
    unit, other = relative_unit(base, reward), relative_unit(base, reward * scale)
    assert math.isclose(unit, other * scale, rel_tol=1e-9)
    margins = [(each[:, 0] - each[:, 1]) * by for each, by in ((base, 1), (reward, unit))]
    assert math.isclose(*(float(np.mean(each**2)) for each in margins), rel_tol=1e-9)


@pytest.mark.parametrize(
    ("base", "reward", "told"),
    [([[1, 1]], [[1, 2]], "policy has no margin"), ([[1, 2]], [[0, 0]], "reward has no margin"),
     ([[1, np.nan]], [[1, 2]], "no pair")],
)  # fmt: skip
def test_a_unit_needs_margins(base, reward, told):
    with pytest.raises(UsageError, match=told):
        relative_unit(base, reward)


def test_the_best_weight_is_the_smallest_of_equals():
    assert best_weight([0.6, 0.6, 0.5], [4, 0.5, 0]) == 1
    assert best_weight([0.5, 0.6], [0, INFINITE]) == 1
    # The same ninth, of three strangers' draws on three rows, summed in another order.
    assert best_weight([0.1 + 0.2, 0.3, np.mean([0.1, 0.2, 0.6])], [2, 1, 0]) == 2


@given(arrays(np.float64, (20, 3), elements=st.sampled_from([0.0, 0.5, 1.0])), st.integers(2, 4))
def test_a_fold_does_not_choose_its_own_weight(values, n):
    folds = np.arange(20) % n
    chosen = cross_fitted(values, folds, [0, 1, 2])
    changed = values.copy()
    changed[folds == 0] = 1 - changed[folds == 0]
    again = cross_fitted(changed, folds, [0, 1, 2])
    assert (chosen[folds == 0] == again[folds == 0]).all()
    others = values[folds != 0].mean(axis=0)
    assert others[chosen[folds == 0][0]] == others.max()
