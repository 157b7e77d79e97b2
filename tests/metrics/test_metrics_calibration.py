import math
from dataclasses import astuple
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from scipy.special import expit, logit
from sklearn import metrics as sk

from palate.metrics import calibration
from palate.metrics.calibration import CalibrationScores, calibration_error, fitted_temperature

NAN = math.nan
MARGINS = st.lists(st.floats(-30, 30), min_size=1, max_size=60)


def scores(margins: Any) -> CalibrationScores:
    found = calibration(margins, ["one user"] * len(margins)).before
    assert found is not None
    return found


def both_orientations(margins: list[float]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    m = np.array(margins)
    return expit(np.concatenate([m, -m])), np.repeat([1, 0], m.size)


def test_hand_worked() -> None:
    margins = [logit(0.8), logit(0.4)]
    assert scores(margins).brier == pytest.approx((0.04 + 0.36) / 2)
    assert scores(margins).log_loss == pytest.approx(-(math.log(0.8) + math.log(0.4)) / 2)
    # One bin holds everything: both orientations average to a half.
    assert calibration_error(np.array(margins), 1) == pytest.approx(0)
    # Probabilities .2 .4 | .6 .8 with labels 0 1 | 0 1: gap (1 - .6)/2 and (1.4 - 1)/2 per bin.
    assert calibration_error(np.array(margins), 2) == pytest.approx(0.2)
    error = calibration_error(np.array(margins), 4)
    assert error == pytest.approx((0.2 + 0.6 + 0.6 + 0.2) / 4)


@given(MARGINS)
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


@given(MARGINS, st.randoms(use_true_random=False))
def test_order_and_unscored_change_nothing(margins: list[float], random: Any) -> None:
    turned = [NAN, *random.sample(margins, len(margins))]
    one, other = astuple(scores(turned)), astuple(scores(margins))
    assert one == pytest.approx(other, abs=1e-12)
    turned_margins = np.array(turned[1:])
    assert fitted_temperature(turned_margins) == pytest.approx(
        fitted_temperature(np.array(margins)), rel=1e-6
    )


@given(MARGINS)
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
    assert c.before is not None
    assert c.after is not None
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
    assert c.after is not None
    assert c.after.brier == pytest.approx(scores(scaled).brier)


def test_folds_follow_the_seed_and_not_the_rows() -> None:
    rng = np.random.default_rng(12)
    m, users = rng.normal(1, 2, 300), rng.integers(0, 30, 300)
    order = rng.permutation(300)
    c, shuffled = calibration(m, users), calibration(m[order], users[order])
    assert c.temperatures == pytest.approx(shuffled.temperatures, rel=1e-6)
    assert calibration(m, users) == c
    assert calibration(m, users, seed=1).temperatures != c.temperatures


def test_edges() -> None:
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
