"""What a second computation says of verdicts, and tests of many draws at once."""

import numpy as np
import pytest
from scipy.special import ndtr

from palate import metrics
from palate.metrics import Clusters
from palate.metrics.alarms import LEAST, LEAST_SCORED, of_margins, of_scores, of_share, of_users
from palate.metrics.noise import NoisyVerdicts, are_replies, blocks, error_sd
from palate.metrics.paired import redrawn_holm, redrawn_sign_flips, redrawn_tests


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


RNG = np.random.default_rng(0)


def named(alarms):
    return [(alarm.check, alarm.n, alarm.of) for alarm in alarms]


def margin_alarms(
    margins, *, longer=None, couples=False, shown=False, log_odds=False, one_user=False
):
    margins = np.asarray(margins, dtype=float)
    n = len(margins)
    pairs = np.arange(n) // 2 if couples else np.arange(n)
    codes = np.stack([pairs, np.zeros(n, int) if one_user else np.arange(n)])
    longer = RNG.normal(size=n) if longer is None else np.asarray(longer, dtype=float)
    alarms = of_margins(codes, margins, longer, np.full(n, shown), log_odds=log_odds)
    return named(alarms)


@pytest.mark.parametrize("bound", [0.1, 0.2, 0.5, 0.8])
@pytest.mark.parametrize("n", [20, 48, 96, 1000])
def test_a_share_at_its_bound_raises_an_alarm_in_at_most_one_of_a_thousand(bound, n):
    from scipy.stats import binom

    least = next((k for k in range(n + 1) if [*of_share("x", k, n, bound)]), n + 1)
    assert binom.sf(least - 1, n, bound) < 0.001 <= binom.sf(least - 2, n, bound)


def test_a_share_of_few_rows_or_of_few_pairs_says_nothing():
    assert not [*of_share("unscored", LEAST - 1, LEAST - 1, 0.1)]
    assert not [*of_share("ties", 900, 1000, 0.5, LEAST - 1)]
    assert named(of_share("ties", 800, 1000, 0.5, LEAST)) == []
    assert named(of_share("ties", 1000, 1000, 0.5, LEAST)) == [("ties", 1000, 1000)]
    assert not [*of_share("one side", 0, 0, 0.8)]


def test_one_score_for_all_is_constant_from_twenty_scores_on():
    (alarm,) = of_scores(np.full(LEAST, 0.25))
    assert (alarm.check, alarm.value) == ("constant", 0.25)
    assert not [*of_scores(np.full(LEAST - 1, 0.25))]
    assert not [*of_scores(np.append(np.full(LEAST, 0.25), 0.26))]


def test_scores_at_an_end_of_the_unit_interval_are_saturated():
    inside = np.linspace(0.1, 0.9, 20)
    assert named(of_scores(np.concatenate([inside, np.ones(80)]))) == [("saturated", 80, 100)]
    both = np.concatenate([inside, np.ones(40), np.zeros(40)])
    assert named(of_scores(both)) == [("saturated", 80, 100)]
    for healthy in (
        np.concatenate([inside[:9], np.ones(LEAST_SCORED - 10)]),  # too few
        np.concatenate([inside, np.zeros(80)]),  # such as words in common
        np.concatenate([np.ones(50), np.zeros(50)]),  # pass or fail
        np.concatenate([inside, np.ones(80)]) * 2,  # no probabilities
        np.linspace(0, 1, 100),
    ):
        assert not [*of_scores(healthy)]


def test_margins_on_few_steps_are_coarse_where_they_are_log_odds():
    labels = np.tile([0.0, 1.0, -1.0, 0.0], 12)
    assert margin_alarms(labels, log_odds=True) == [("coarse", 48, 48)]
    assert margin_alarms(labels) == []
    rating = np.tile([0.0, 1.0, -2.0, 3.0, 4.0, -5.0, 6.0, 7.0], 6)
    assert margin_alarms(rating, log_odds=True) == []
    assert margin_alarms(RNG.normal(size=96), log_odds=True) == []
    assert margin_alarms(np.round(RNG.normal(size=96) * 128) / 128, log_odds=True) == []


def test_margins_that_follow_length_are_of_length_alone_from_forty_pairs_on():
    longer = RNG.permutation(np.arange(1.0, 97)) - 48.5
    for margins in (longer, -longer, np.cbrt(longer)):
        assert margin_alarms(margins, longer=longer) == [("length", 96, 96)]
    assert margin_alarms(longer[:39], longer=longer[:39]) == []
    mostly = longer + RNG.normal(size=96) * 12
    assert 0.85 < np.corrcoef(mostly, longer)[0, 1] < 0.95
    assert margin_alarms(mostly, longer=longer) == []
    assert margin_alarms(longer, longer=np.full(96, 5.0)) == []


def test_couples_whose_margins_are_all_equal_are_of_a_blind_scorer():
    margins = np.repeat(RNG.normal(size=48), 2)
    assert margin_alarms(margins, couples=True, shown=True) == [("blind", 48, 48)]
    assert margin_alarms(margins, couples=True, shown=False) == []
    assert margin_alarms(margins[:38], couples=True, shown=True) == []
    again = margin_alarms(margins, couples=True, shown=True, one_user=True)
    assert again == [], "the same user asked twice"
    moved = margins + np.tile([0.0, 1e-9], 48)
    assert margin_alarms(moved, couples=True, shown=True) == []


def test_couples_of_which_many_are_equal_are_of_a_scorer_with_cut_prompts():
    a, b = RNG.normal(size=(2, 48))
    assert named(of_users(a, np.where(np.arange(48) < 30, a, b))) == [("cut", 30, 48)]
    assert named(of_users(a, np.where(np.arange(48) < 9, a, b))) == []


def test_equal_margins_are_luck_where_numbers_are_rounded_or_few():
    a = np.round(RNG.normal(size=400) * 128) / 128
    b = np.where(np.arange(400) < 200, a, np.round(RNG.normal(size=400) * 128) / 128)
    assert named(of_users(a, b)) == []
    fine = RNG.normal(size=400)
    assert named(of_users(fine, np.where(np.arange(400) < 200, fine, b))) == [("cut", 200, 400)]
    ratings = RNG.integers(-4, 5, 400).astype(float)
    assert named(of_users(ratings, ratings)) == []


def test_a_cell_without_margins_says_nothing():
    assert margin_alarms(np.full(96, np.nan), couples=True, shown=True) == []
    assert margin_alarms(np.zeros(96), couples=True, shown=True, log_odds=True) == []
    assert margin_alarms([], couples=True, shown=True) == []
    assert not [*of_scores(np.zeros(0))]
