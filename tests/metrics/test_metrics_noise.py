"""What a second computation says of verdicts, and tests of many draws at once."""

import numpy as np
import pytest
from scipy.special import ndtr

from palate import metrics
from palate.metrics import Clusters
from palate.metrics.noise import NoisyVerdicts, are_replies, blocks, error_sd
from palate.metrics.redrawn import redrawn_holm, redrawn_sign_flips, redrawn_tests


def numbers(margins, sd, **more):
    margins = np.asarray(margins, dtype=np.float64)
    rows = margins if margins.ndim == 2 else margins[:, None]
    values = np.mean(np.sign(rows), axis=1) / 2 + 0.5
    return NoisyVerdicts(values, rows, sd, **more)


def designs():
    rng = np.random.default_rng(3)
    users = rng.integers(0, 9, 60)
    pairs = np.array([rng.choice(9, 2, replace=False) for _ in range(60)])
    questions = rng.integers(0, 8, 60)
    texts = [f"a{k}" for k in rng.integers(0, 9, 60)], [f"b{k}" for k in rng.integers(0, 9, 60)]
    yield "users", Clusters.of(users)
    yield "users and questions", Clusters.of(users, questions=questions)
    yield "couples", Clusters.of(pairs[:, 0], pairs[:, 1])
    yield "couples and questions", Clusters.of(pairs[:, 0], pairs[:, 1], questions=questions)
    yield "one question", Clusters.of(users, questions=np.zeros(60), texts=texts)
    yield "one user", Clusters.of(np.zeros(60))
    yield "two users", Clusters.of(np.arange(60) % 2)


@pytest.mark.parametrize(("name", "clusters"), list(designs()))
def test_each_draw_is_tested_as_if_it_were_alone(name, clusters):
    draws = np.random.default_rng(5).choice([-1.0, -0.5, 0.0, 0.5, 1.0], size=(40, 60))
    draws[0], draws[1], draws[2], draws[3] = 0.0, 1.0, -1.0, 0.5
    means, p = redrawn_tests(draws, clusters)
    for values, mean, each in zip(draws, means, p, strict=True):
        alone = metrics.clustered_mean(values, clusters, null=0.0, bounds=(-1.0, 1.0))
        assert mean == pytest.approx(alone.value, abs=1e-15)
        assert (alone.p is None and np.isnan(each)) or each == pytest.approx(alone.p, abs=1e-9), (
            name
        )


def test_signs_are_flipped_as_for_one_draw():
    rng = np.random.default_rng(2)
    for users, tolerance in ((5, 1e-12), (12, 1e-12), (40, 0.02)):
        codes = np.repeat(np.arange(users), 3)
        draws = rng.choice([-1.0, 0.0, 1.0], size=(20, codes.size))
        _, p = redrawn_sign_flips(draws, codes)
        alone = [metrics.sign_flip_test(values, codes) for values in draws]
        assert np.abs(p - alone).max() <= tolerance


def test_holm_is_that_of_one_table():
    rng = np.random.default_rng(4)
    tables = rng.random((50, 6))
    tables[rng.random(tables.shape) < 0.2] = np.nan
    for table, adjusted in zip(tables, redrawn_holm(tables), strict=True):
        alone = metrics.holm([None if np.isnan(p) else p for p in table])
        assert [None if np.isnan(p) else p for p in adjusted.tolist()] == pytest.approx(alone)


@pytest.mark.parametrize("shape", ["normal", "unequal", "heavy"])
def test_expected_flips_are_right_whatever_the_shape_of_errors(shape):
    rng = np.random.default_rng(6)
    n = 200_000
    exact = rng.standard_t(5, n)
    errors = 0.3 * rng.standard_normal(n)
    if shape == "unequal":
        errors *= rng.lognormal(0.0, 0.7, n)
    if shape == "heavy":
        errors = 0.2 * rng.standard_t(3, n)
    sd = error_sd(errors)
    assert shape != "normal" or sd == pytest.approx(0.3, rel=0.01)
    noisy = numbers(exact + errors, sd)
    flipped = np.mean(np.sign(exact) != np.sign(exact + errors))
    assert noisy.flips().mean() == pytest.approx(flipped, rel=0.05)


def test_margins_as_small_as_their_error_are_taken_for_smaller_still():
    # Normal margins of sd 1 and errors of sd 1: a quarter of the signs differ.
    rng = np.random.default_rng(7)
    exact, errors = rng.standard_normal((2, 200_000))
    noisy = numbers(exact + errors, 1.0)
    assert noisy.shrinkage == pytest.approx(0.5, abs=0.01)
    assert noisy.flips().mean() == pytest.approx(0.25, abs=0.003)
    drawn = noisy.drawn(rng, 1)[0]
    assert np.mean(drawn != noisy.values) == pytest.approx(0.25, abs=0.005)
    assert ndtr(-np.abs(exact + errors)).mean() < 0.2, "without shrinking: too few"


def test_two_orders_that_disagree_are_a_tie():
    margins = [[0.3, 0.1], [0.3, -0.1], [-0.2, -0.05], [0.05, -0.4], [np.nan, 0.2]]
    noisy = numbers(margins, 0.2)
    drawn = noisy.drawn(np.random.default_rng(0), 40_000)
    assert set(np.unique(drawn[:, :4])) == {0.0, 0.5, 1.0}
    changed = (drawn[:, :4] != noisy.values[:4]).mean(axis=0)
    # What is drawn lies about ρ h, and so flips as often as the formula says.
    assert changed == pytest.approx(noisy.flips()[:4], abs=0.01)
    assert np.isnan(noisy.flips()[4]) and np.isnan(drawn[:, 4]).all()


def test_a_tie_of_rounded_numbers_is_broken_and_one_of_replies_is_not():
    assert numbers([0.0, 2.0, -3.0], 0.1).flips().round(3).tolist() == [1.0, 0.0, 0.0]
    steady = numbers([0.0, 1.0], None, n=16, changed=0)
    assert steady.flips().tolist() == [0.0, 0.0]
    assert (steady.drawn(np.random.default_rng(0), 9) == steady.values).all()


def test_replies_change_into_either_other_verdict():
    noisy = numbers([1.0] * 4000 + [0.0] * 4000, None, n=400, changed=100)
    drawn = noisy.drawn(np.random.default_rng(1), 50)
    assert noisy.flips().mean() == 0.25
    assert np.mean(drawn[:, :4000] == 0.5) == pytest.approx(0.125, abs=0.01)
    assert np.mean(drawn[:, :4000] == 0.0) == pytest.approx(0.125, abs=0.01)
    assert np.mean(drawn[:, 4000:] == 1.0) == pytest.approx(0.125, abs=0.01)


def test_what_is_known_is_not_drawn():
    known = np.array([1.0, np.nan, 0.0])
    noisy = numbers([-0.01, 0.01, 0.01], 1.0, known=known)  # error alone
    drawn = noisy.drawn(np.random.default_rng(0), 50)
    assert (drawn[:, 0] == 1).all() and (drawn[:, 2] == 0).all() and drawn[:, 1].std() > 0


def test_shares_stay_shares():
    values = np.array([0.9, 0.5, 0.02, np.nan])
    noisy = NoisyVerdicts(values, values[:, None] - 0.5, 0.05, shares=True)
    drawn = noisy.drawn(np.random.default_rng(0), 500)
    assert np.nanmin(drawn) == 0 and np.nanmax(drawn) <= 1
    assert np.abs(drawn[:, :2].mean(axis=0) - values[:2]).max() < 0.02
    assert noisy.flips()[1] == 0.5


def test_errors_of_nothing():
    assert error_sd([]) is None and not are_replies([])
    assert numbers([0.0, 1.0], 0.0).flips().tolist() == [0.0, 0.0]
    assert sum(blocks(10**7, 1000)) == 1000 and max(blocks(10**7, 1000)) == 1
