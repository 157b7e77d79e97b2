import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from palate.errors import UsageError
from palate.metrics import clustered_mean, sign_flip_test
from palate.metrics.selection import best_of, best_of_curve

NAN = math.nan


def world(seed: int, questions: int = 40, samples: int = 8) -> tuple:
    rng = np.random.default_rng(seed)
    gold = rng.integers(0, 5, (questions, samples)) / 4
    users = (rng.integers(0, questions // 3, questions)).tolist()
    return gold + rng.normal(0, 0.4, gold.shape), gold, users


def test_points_are_user_means_of_the_questions() -> None:
    scores, gold, users = world(0)
    curve = best_of_curve(scores, gold, users, [1, 3, 8])
    values = best_of(scores, gold, [1, 3, 8])
    for i, point in enumerate(curve.points):
        expected = clustered_mean(values[:, i], users, null=0)
        assert (point.best.value, point.best.low, point.best.high, point.best.se) == (
            pytest.approx(expected.value),
            pytest.approx(expected.low),
            pytest.approx(expected.high),
            pytest.approx(expected.se),
        )
        assert point.best.p is None
        moved = values[:, i] - values[:, 0]
        assert point.gain.value == pytest.approx(float(moved.mean()), abs=1e-15)
        assert point.gain.p == sign_flip_test(np.where(np.abs(moved) < 1e-12, 0, moved), users)
    assert curve.random.value == pytest.approx(float(gold.mean()))
    assert [point.reliable for point in curve.points] == [True, True, False]


def test_one_sample_gains_nothing_and_has_no_oracle_share() -> None:
    scores, gold, users = world(1)
    point = best_of_curve(scores, gold, users, [1]).points[0]
    assert (point.gain.value, point.gain.low, point.gain.high, point.gain.p) == (0, 0, 0, 1)
    assert point.oracle_share.value is None
    assert point.kl_bound == 0


def test_the_oracle_takes_all_the_oracle_share_and_a_constant_scorer_none() -> None:
    _, gold, users = world(2)
    for point in best_of_curve(gold, gold, users, [2, 5, 8]).points:
        assert point.oracle_share.value == pytest.approx(1)
        assert point.best == point.oracle
    for point in best_of_curve(np.zeros_like(gold), gold, users, [2, 5, 8]).points:
        assert point.oracle_share.value == pytest.approx(0, abs=1e-12)
        # Rounding is no gain: neither an interval nor a test may be made of it.
        assert (point.gain.value, point.gain.low, point.gain.high, point.gain.p) == (0, 0, 0, 1)


def test_oracle_share_by_leaving_users_out_by_hand() -> None:
    scores, gold, users = world(3)
    values = best_of(scores, gold, [1, 4])
    room = best_of(gold, gold, [4])[:, 0] - values[:, 0]
    gained = values[:, 1] - values[:, 0]
    share = gained.sum() / room.sum()
    found = best_of_curve(scores, gold, users, [4]).points[0].oracle_share
    names = sorted(set(users))
    out = [np.array(users) != u for u in names]
    moved = np.array([gained[m].sum() / room[m].sum() for m in out]) - share
    rooms = np.array([room[~m].sum() for m in out])
    se = math.sqrt((len(names) - 1) / len(names) * (moved**2).sum())
    df = rooms.sum() ** 2 / (rooms**2).sum() - 1
    half = stats.t(df).ppf(0.975) * se
    assert (found.value, found.se, found.df) == pytest.approx((share, se, df))
    assert found.low == pytest.approx(share - half)
    assert found.high == pytest.approx(min(1, share + half))


@settings(max_examples=30)
@given(st.integers(0, 10_000))
def test_laws_of_the_curve(seed: int) -> None:
    scores, gold, users = world(seed, questions=6, samples=6)
    ks = list(range(1, 7))
    curve = best_of_curve(scores, gold, users, ks)
    oracle = [point.oracle.value or 0.0 for point in curve.points]
    assert all(b >= a - 1e-12 for a, b in itertools.pairwise(oracle))
    for point in curve.points:
        assert (point.best.value or 0.0) <= (point.oracle.value or 0.0) + 1e-12
        share = point.oracle_share
        if share.value is not None and share.low is not None and share.high is not None:
            assert share.low - 1e-12 <= share.value <= share.high + 1e-12
            assert share.value <= 1
    again = best_of_curve(np.arctan(scores) * 100, gold, users, ks)
    assert again == curve


def test_questions_without_enough_samples_are_left_out_at_every_k() -> None:
    scores, gold, users = world(4)
    holed = scores.copy()
    holed[:5, 0] = NAN
    holed[5, :] = NAN
    unknown = gold.copy()
    unknown[39, 2] = NAN
    curve = best_of_curve(holed, unknown, users, [1, 4, 8])
    assert (curve.n_questions, curve.n_left_out) == (33, 7)
    assert (curve.n_samples, curve.n_unscored, curve.n_without_gold) == (320, 13, 1)
    assert {point.best.n for point in curve.points} == {33}
    rest = best_of_curve(scores[6:39], gold[6:39], users[6:39], [1, 4, 8])
    assert curve.points == rest.points
    assert curve.random == rest.random
    # Smaller ks keep them; 7 usable samples are solid to 3.
    wider = best_of_curve(holed, unknown, users, [3, 4])
    assert (wider.n_questions, wider.n_left_out) == (39, 1)
    assert [point.reliable for point in wider.points] == [True, False]


def test_oracle_and_chance_see_the_same_samples_as_the_scorer() -> None:
    # The best sample is unscored: nobody could have picked it.
    curve = best_of_curve([[1, 2, NAN]], [[0.0, 0.5, 1.0]], ["a"], [2])
    assert curve.points[0].oracle.value == 0.5
    assert curve.random.value == 0.25


def test_nothing_usable() -> None:
    curve = best_of_curve([[NAN, NAN]], [[0.0, 1.0]], ["a"], [1, 2])
    assert (curve.n_questions, curve.n_left_out) == (0, 1)
    assert curve.random.value is None
    assert [point.gain.value for point in curve.points] == [None, None]
    assert [point.oracle_share.value for point in curve.points] == [None, None]


def test_gold_without_ends() -> None:
    scores, gold, users = world(5)
    on_scale = best_of_curve(scores, gold, users, [4]).points[0]
    free = best_of_curve(scores, gold * 300 - 150, users, [4], bounds=None).points[0]
    assert free.best.value == pytest.approx(300 * (on_scale.best.value or 0) - 150)
    assert free.best.se == pytest.approx(300 * (on_scale.best.se or 0))
    assert free.gain.p == pytest.approx(on_scale.gain.p)
    assert free.oracle_share.value == pytest.approx(on_scale.oracle_share.value)
    with pytest.raises(ValueError, match="bounds"):
        best_of_curve(scores, gold * 300, users, [4])


def test_all_questions_alike_in_the_middle_is_no_point_interval() -> None:
    curve = best_of_curve([[1, 2]] * 4, [[0.5, 0.5]] * 4, list("abcd"), [2])
    assert (curve.random.value, curve.random.low) == (0.5, None)


def test_bad_input() -> None:
    scores, gold, users = world(6)
    with pytest.raises(UsageError, match="best of 9"):
        best_of_curve(scores, gold, users, [9])
    with pytest.raises(ValueError, match="users 39"):
        best_of_curve(scores, gold, users[1:], [1])


def test_intervals_cover_what_fresh_questions_would_give() -> None:
    # Users differ in level and in how good the scorer is for them; truth by integration.
    rng = np.random.default_rng(8)
    k, worlds, m4 = 4, 400, 1.029375
    covered = np.zeros(3)
    for _ in range(worlds):
        users = np.repeat(np.arange(30), rng.integers(1, 6, 30))
        level = rng.normal(0, 0.5, 30)[users][:, None]
        skill = np.where(rng.random(30) < 0.5, 0.8, 0.2)[users][:, None]
        z = rng.normal(size=(users.size, 8))
        scores = skill * z + np.sqrt(1 - skill**2) * rng.normal(size=z.shape)
        point = best_of_curve(scores, level + z, users, [k], bounds=None).points[0]
        truths = (0.5 * m4, 0.5 * m4, 0.5)
        for i, (e, truth) in enumerate(
            zip((point.best, point.gain, point.oracle_share), truths, strict=True)
        ):
            assert e.low is not None
            assert e.high is not None
            covered[i] += e.low <= truth <= e.high
    assert bool(np.all(covered / worlds >= 0.92)), covered / worlds
