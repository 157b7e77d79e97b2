"""Each check of a cell's numbers: what it says, from how many on, and of whom it says nothing."""

from __future__ import annotations

import numpy as np
import pytest

from palate.metrics.alarms import LEAST, LEAST_SCORED, of_margins, of_scores, of_share, of_users

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


def test_one_score_for_all_is_constant_from_forty_scores_on():
    (alarm,) = of_scores(np.full(LEAST_SCORED, 0.25))
    assert (alarm.check, alarm.value) == ("constant", 0.25)
    assert not [*of_scores(np.full(LEAST_SCORED - 1, 0.25))]
    assert not [*of_scores(np.append(np.full(LEAST_SCORED, 0.25), 0.26))]


def test_scores_at_an_end_of_the_unit_interval_are_saturated():
    inside = np.linspace(0.1, 0.9, 20)
    assert named(of_scores(np.concatenate([inside, np.ones(80)]))) == [("saturated", 80, 100)]
    both = np.concatenate([inside, np.ones(40), np.zeros(40)])
    assert named(of_scores(both)) == [("saturated", 80, 100)]
    for healthy in (
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
