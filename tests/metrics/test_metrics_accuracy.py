import math
from dataclasses import astuple
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.optimize import minimize_scalar
from scipy.special import expit, logit
from sklearn import metrics as sk
from statsmodels.stats.proportion import proportion_confint

from palate.metrics import (
    Clusters,
    accuracy,
    accuracy_bounds,
    calibration,
    concordance_values,
    outcome_counts,
    position_consistency,
    strict_accuracy,
)
from palate.metrics.accuracy import CalibrationScores, calibration_error, fitted_temperature
from palate.metrics.means import Units

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
    assert of_couples([0.75, 0.125], [0.25, 0.5]).tolist() == [0.5, 0.3125]


def test_other_numbers_are_no_outcomes() -> None:
    for use in (outcome_counts, strict_accuracy, accuracy_bounds):
        for wrong in (1.25, -0.1):
            with pytest.raises(ValueError, match="outcomes must be"):
                use([1, wrong])
    with pytest.raises(ValueError, match="outcomes must be"):
        accuracy([1.3], ["a"])


@given(OUTCOMES)
def test_bounds_hold_accuracy_and_strict_is_below(values: list[float]) -> None:
    bounds, strict = accuracy_bounds(values), strict_accuracy(values)
    value = accuracy(values, list(range(len(values)))).value
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


def of_couples(v_a: Any, v_b: Any) -> np.ndarray:
    n = len(v_a)
    couples = Units((np.arange(n), np.arange(n, 2 * n)), Clusters.of(["ann"] * n, ["bob"] * n))
    return couples.values(np.append(v_a, v_b))


def test_values_of_mirrored_couples() -> None:
    values = of_couples([1, 1, 0, 0.5, 1, NAN], [1, 0, 0, 0.5, 0.5, 1])
    assert values[:5].tolist() == [1, 0.5, 0, 0.5, 0.75]
    assert math.isnan(values[5])


@given(OUTCOMES)
def test_mirrored_accuracy_is_a_half_and_half_of_both_right_less_both_wrong(values):
    v = np.array([x for x in values if x in (0, 1)])
    a, b = v[: v.size // 2], v[v.size // 2 : v.size // 2 * 2]
    if a.size:
        both = np.mean(a * b) - np.mean((1 - a) * (1 - b))
        assert of_couples(a, b).mean() == pytest.approx(0.5 + both / 2)


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


VOTES = st.lists(
    st.tuples(st.sampled_from([0.0, 0.5, 1.0]), st.sampled_from([0.0, 0.5, 1.0])), min_size=1
)


def test_hand_worked_of_position() -> None:
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
def test_naming_the_other_response_changes_nothing_but_exchanging_orders_turns_the_bias(votes):
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


CALIBRATION_MARGINS = st.lists(st.floats(-30, 30), min_size=1, max_size=60)


def scores(margins: Any) -> CalibrationScores:
    found = calibration(margins, ["one user"] * len(margins)).before
    assert found is not None
    return found


def both_orientations(margins: list[float]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    m = np.array(margins)
    return expit(np.concatenate([m, -m])), np.repeat([1, 0], m.size)


def test_hand_worked_of_calibration() -> None:
    margins = [logit(0.8), logit(0.4)]
    assert scores(margins).brier == pytest.approx((0.04 + 0.36) / 2)
    assert scores(margins).log_loss == pytest.approx(-(math.log(0.8) + math.log(0.4)) / 2)
    # One bin holds everything: both orientations average to a half.
    assert calibration_error(np.array(margins), 1) == pytest.approx(0)
    # Probabilities .2 .4 | .6 .8 with labels 0 1 | 0 1: gap (1 - .6)/2 and (1.4 - 1)/2 per bin.
    assert calibration_error(np.array(margins), 2) == pytest.approx(0.2)
    error = calibration_error(np.array(margins), 4)
    assert error == pytest.approx((0.2 + 0.6 + 0.6 + 0.2) / 4)


@given(CALIBRATION_MARGINS)
def test_against_scikit_learn(margins: list[float]) -> None:
    p, y = both_orientations(margins)
    assert scores(margins).brier == pytest.approx(sk.brier_score_loss(y, p))
    # Theirs takes the logarithm of a rounded 1 - p: far out it holds fewer digits.
    expected = sk.log_loss(y, p, labels=[0, 1])
    assert scores(margins).log_loss == pytest.approx(expected, abs=1e-3)


def test_ece_against_cutting_by_hand() -> None:
    m = np.random.default_rng(8).normal(1, 2, 150)  # 300 rows, 20 in each of 15 bins
    p, y = both_orientations(m.tolist())
    order = np.argsort(p)
    gaps = [abs(p[part].mean() - y[part].mean()) for part in np.split(order, 15)]
    assert scores(m).ece == pytest.approx(np.mean(gaps))


def test_ece_shares_ties_between_bins() -> None:
    # All margins alike: .9 four times with label 1, .1 four times with label 0. Any cut is the
    # same, as every bin within a tie has its mean label.
    margins = np.full(4, logit(0.9))
    for bins in (2, 4, 6):
        assert calibration_error(margins, bins) == pytest.approx(0.1)
    # The middle one of three bins takes as much of both, and the gaps cancel there.
    assert calibration_error(margins, 3) == pytest.approx(0.1 * 2 / 3)


@given(CALIBRATION_MARGINS, st.randoms(use_true_random=False))
def test_order_and_unscored_change_nothing(margins: list[float], random: Any) -> None:
    turned = [NAN, *random.sample(margins, len(margins))]
    one, other = astuple(scores(turned)), astuple(scores(margins))
    assert one == pytest.approx(other, abs=1e-12)
    turned_margins = np.array(turned[1:])
    assert fitted_temperature(turned_margins) == pytest.approx(
        fitted_temperature(np.array(margins)), rel=1e-6
    )


@given(CALIBRATION_MARGINS)
def test_ece_is_a_share_and_finer_bins_find_no_less(margins: list[float]) -> None:
    coarse, fine = (calibration_error(np.array(margins), bins) for bins in (5, 15))
    assert 0 <= coarse <= fine + 1e-12 <= 1 + 2e-12


def test_honest_margins_are_calibrated() -> None:
    rng = np.random.default_rng(9)
    m = rng.normal(0, 2, 20_000)
    m = np.where(rng.random(m.size) < expit(m), m, -m)
    assert scores(m).ece < 0.01
    assert fitted_temperature(m) == pytest.approx(1, abs=0.03)
    assert fitted_temperature(4 * m) == pytest.approx(4, abs=0.12)


def test_temperature_hand_worked() -> None:
    # 3 of 4 right at margin 2 with t = 5/6: 4 outcomes whose mean target is (3t + 1 - t)/4 = 2/3,
    # so sigmoid(2/T) = 2/3 and T = 2 / log 2.
    assert fitted_temperature(np.array([2.0, 2.0, 2.0, -2.0])) == pytest.approx(2 / math.log(2))


@given(st.lists(st.floats(-8, 8), min_size=2, max_size=30))
def test_temperature_minimises_the_loss_of_the_smoothed_targets(margins: list[float]) -> None:
    m, n = np.array(margins), len(margins)
    t = (n + 1) / (n + 2)

    def loss(log_t: float) -> float:
        z = m / math.exp(log_t)
        return float(np.mean(t * np.logaddexp(0, -z) + (1 - t) * np.logaddexp(0, z)))

    fitted = fitted_temperature(m)
    best = minimize_scalar(loss, bounds=(math.log(1e-3), math.log(1e3)), method="bounded")
    assert loss(math.log(fitted)) <= best.fun + 1e-9


def test_separable_and_hopeless_margins_stay_in_bounds() -> None:
    # All right: sigmoid(1/T) = 11/12.
    assert fitted_temperature(np.full(10, 1.0)) == pytest.approx(1 / math.log(11))
    assert fitted_temperature(np.full(10, -1.0)) == 1e3
    assert fitted_temperature(np.full(10, 1e-9)) == 1e-3
    assert fitted_temperature(np.zeros(10)) == 1
    assert fitted_temperature(np.empty(0)) == 1
    assert 1e-3 <= fitted_temperature(np.array([1e300, -1e300, 5.0])) <= 1e3


def test_cross_fitting_cools_overconfidence() -> None:
    rng = np.random.default_rng(10)
    users = np.repeat(np.arange(40), 50)
    m = rng.normal(0, 1.5, users.size)
    m = np.where(rng.random(m.size) < expit(m), m, -m)
    c = calibration(5 * m, users)
    assert len(c.temperatures) == 5
    assert all(4.2 < t < 5.8 for t in c.temperatures)
    assert c.after.log_loss < c.before.log_loss
    assert c.after.brier < c.before.brier
    assert c.after.ece < c.before.ece / 3
    assert c.before == scores(5 * m)
    assert (c.n, c.n_users) == (2_000, 40)


def test_a_user_is_scaled_by_others_only() -> None:
    # Two users, two folds: each is scaled by the temperature of the other.
    m = {"a": [2.0, 2.0, -2.0], "b": [4.0, 4.0, 4.0, -4.0]}
    c = calibration(m["a"] + m["b"], ["a"] * 3 + ["b"] * 4)
    t_a, t_b = (fitted_temperature(np.array(margins)) for margins in m.values())
    assert sorted(c.temperatures) == sorted([t_a, t_b])
    scaled = [x / t_b for x in m["a"]] + [x / t_a for x in m["b"]]
    assert c.after.brier == pytest.approx(scores(scaled).brier)


def test_folds_follow_the_seed_and_not_the_rows() -> None:
    rng = np.random.default_rng(12)
    m, users = rng.normal(1, 2, 300), rng.integers(0, 30, 300)
    order = rng.permutation(300)
    c, shuffled = calibration(m, users), calibration(m[order], users[order])
    assert c.temperatures == pytest.approx(shuffled.temperatures, rel=1e-6)
    assert calibration(m, users) == c
    assert calibration(m, users, seed=1).temperatures != c.temperatures


def test_edges_of_calibration() -> None:
    nothing = calibration([NAN], ["a"])
    assert (nothing.before, nothing.after, nothing.n) == (None, None, 0)
    alone = calibration([1.0, -1.0], ["a", "a"])
    assert alone.before is not None
    assert (alone.after, alone.temperatures) == (None, ())
    with pytest.raises(ValueError, match="finite"):
        calibration([math.inf], ["a"])


def test_a_hundred_thousand_rows() -> None:
    rng = np.random.default_rng(0)
    c = calibration(rng.normal(1, 1, 100_000), rng.integers(0, 5_000, 100_000))
    assert c.after is not None
    assert len(c.temperatures) == 5
