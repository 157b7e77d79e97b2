import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from by_hand import dyads, parts_by_hand, variance_by_hand
from palate.errors import UsageError
from palate.metrics import (
    Clusters,
    best_of,
    best_of_curve,
    clustered_mean,
    over_optimisation,
    sign_flip_test,
)

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
    by_user, *_ = parts_by_hand(
        lambda kept: gained[kept].sum() / room[kept].sum(), users, range(len(users))
    )
    se, rooms = math.sqrt(by_user), np.bincount(users, room)
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
            assert e.high is not None
            covered[i] += e.low <= truth <= e.high
    assert bool(np.all(covered / worlds >= 0.92)), covered / worlds


SAMPLES = 8
USERS = 32


def couples_world(
    rng: np.random.Generator, couples: int, knows: float, noise: float = 1.0
) -> tuple[np.ndarray, np.ndarray, list[int], list[int]]:
    """Couples of users with tastes on one axis: rows 2c and 2c + 1 mirror each other.

    A sample suits a user by taste times its place on the axis; gold is the contrast. A scorer
    sees the place and something else, and how well it reads a user belongs to that user.
    """
    place = rng.normal(size=(couples, SAMPLES))
    both = np.array([rng.choice(USERS, 2, replace=False) for _ in range(couples)])
    taste = rng.choice([-1.0, 1.0], couples)
    contrast = 1 / (1 + np.exp(-2 * taste[:, None] * place))
    gold = np.stack([contrast, 1 - contrast], axis=1).reshape(-1, SAMPLES)
    read = knows + rng.normal(0, 0.5, USERS)[both] * (knows > 0)
    seen = taste[:, None, None] * np.array([1, -1])[:, None] * read[:, :, None] * place[:, None]
    else_ = rng.normal(0, noise, (couples, 1, SAMPLES))
    scores = (seen + else_).reshape(-1, SAMPLES)
    mirrors = [k ^ 1 for k in range(2 * couples)]
    return scores, gold, both.ravel().tolist(), mirrors


def test_a_blind_scorer_is_at_exactly_a_half_with_a_point_interval() -> None:
    scores, gold, users, mirrors = couples_world(np.random.default_rng(0), 20, 0.0)
    questions = [k // 2 for k in range(40)]
    curve = best_of_curve(scores, gold, users, [1, 4], questions=questions, mirrors=mirrors)
    for point in curve.points:
        e = point.best
        assert (e.value, e.low, e.high, e.n) == (0.5, 0.5, 0.5, 20)
        assert (point.gain.value, point.gain.low, point.gain.high, point.gain.p) == (0, 0, 0, 1)
    assert curve.points[1].oracle_share.value == pytest.approx(0)
    assert curve.points[1].oracle.value > 0.6
    assert curve.n_questions == 40
    fit = over_optimisation(scores, gold, users, [2, 3, 4], questions=questions, mirrors=mirrors)
    assert (fit.alpha.value, fit.beta.value, fit.peak) == (0, 0, "none")


def test_values_are_those_over_rows_and_intervals_those_of_couples() -> None:
    scores, gold, users, mirrors = couples_world(np.random.default_rng(1), 30, 0.8)
    rows = best_of_curve(scores, gold, users, [1, 4])
    found = best_of_curve(scores, gold, users, [1, 4], mirrors=mirrors)
    values = best_of(scores, gold, [4])[:, 0].reshape(-1, 2)
    for k in (0, 1):
        for name in ("best", "oracle", "gain", "oracle_share"):
            one, other = (getattr(curve.points[k], name) for curve in (rows, found))
            assert one.value == pytest.approx(other.value, nan_ok=True) or one.value is None
    by_hand = clustered_mean(values.mean(axis=1), Clusters.of(users[::2], users[1::2]))
    best = found.points[1].best
    assert (best.value, best.low, best.high) == pytest.approx(
        (by_hand.value, by_hand.low, by_hand.high)
    )
    # p of a gain is the t's: sums of users who meet each other do not flip by themselves
    gains = (values - best_of(scores, gold, [1])[:, :1].reshape(-1, 2)).mean(axis=1)
    assert found.points[1].gain.p == pytest.approx(
        clustered_mean(gains, Clusters.of(users[::2], users[1::2]), null=0, bounds=(-1, 1)).p
    )


def test_oracle_share_by_leaving_out_users_and_pairs_by_hand() -> None:
    scores, gold, users, mirrors = couples_world(np.random.default_rng(2), 30, 0.8)
    values = best_of(scores, gold, [1, 4])
    gained = (values[:, 1] - values[:, 0]).reshape(-1, 2).mean(axis=1)
    room = (best_of(gold, gold, [4])[:, 0] - values[:, 0]).reshape(-1, 2).mean(axis=1)
    share = gained.sum() / room.sum()
    by_user, *_ = parts_by_hand(
        lambda kept: gained[kept].sum() / room[kept].sum(),
        dyads(users[::2], users[1::2]),
        range(30),
    )
    point = best_of_curve(scores, gold, users, [4], mirrors=mirrors).points[0]
    assert point.oracle_share.value == pytest.approx(share)
    assert point.oracle_share.se == pytest.approx(np.sqrt(by_user))


def test_both_rows_of_a_couple_count_or_none() -> None:
    scores, gold, users, mirrors = couples_world(np.random.default_rng(3), 12, 0.8)
    scores[3, :6] = np.nan  # two samples are left of row 3, whose mirror is row 2
    found = best_of_curve(scores, gold, users, [4], mirrors=mirrors)
    rest = [k for k in range(24) if k not in (2, 3)]
    again = [k ^ 1 for k in range(22)]
    without = best_of_curve(scores[rest], gold[rest], [users[k] for k in rest], [4], mirrors=again)
    for one, other in zip(found.points, without.points, strict=True):
        for name in ("best", "oracle", "gain", "oracle_share"):
            ours, theirs = getattr(one, name), getattr(other, name)
            assert (ours.value, ours.low, ours.n) == pytest.approx(
                (theirs.value, theirs.low, theirs.n)
            )
    assert (found.n_questions, found.n_left_out) == (22, 2)


def test_fits_are_over_couples_too() -> None:
    scores, gold, users, mirrors = couples_world(np.random.default_rng(4), 30, 0.8)
    fit = over_optimisation(scores, gold, users, [2, 3, 4], mirrors=mirrors)
    assert (fit.alpha.n, fit.n_left_out) == (30, 0)


def test_couples_that_share_questions_are_clustered_both_ways() -> None:
    rng = np.random.default_rng(5)
    scores, gold, users, mirrors = couples_world(rng, 30, 0.8)
    shared = np.repeat(np.arange(10), 6)
    plain, wider = (
        best_of_curve(scores, gold, users, [4], questions=q, mirrors=mirrors).points[0].best
        for q in (None, shared)
    )
    assert plain.value == wider.value
    values = best_of(scores, gold, [4]).reshape(-1, 2).mean(axis=1)
    by_hand = clustered_mean(values, Clusters.of(users[::2], users[1::2], questions=shared[::2]))
    assert (wider.se, wider.df) == pytest.approx((by_hand.se, by_hand.df))
    assert wider.df <= 9 + 1e-9 < plain.df


@pytest.mark.parametrize(
    ("mirrors", "said"),
    [
        ([1, 0, 3, 1], "must name that row"),
        ([1, 0, 3, 9], "must name that row"),
        ([0, 1, 2, 3], "two different users"),
        ([1, 0], "mirrors 2"),
    ],
)
def test_mirrors_that_are_none_are_refused(mirrors: list[int], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        best_of_curve([[1.0, 2.0]] * 4, [[0, 1]] * 4, list("abcd"), [1], mirrors=mirrors)


def shared_world(
    rng: np.random.Generator, cells: list[tuple[int, int]], own: float, skill: float = 0.8
) -> tuple[np.ndarray, np.ndarray, list[int], list[int]]:
    """Levels of users and questions; samples belong to the question, tastes to the row."""
    users, questions = [u for u, _ in cells], [q for _, q in cells]
    level = rng.normal(0, 0.6, 1 + max(questions))[questions, None]
    level = level + rng.normal(0, 0.4, 1 + max(users))[users, None]
    drawn = rng.normal(size=(1 + max(questions), SAMPLES))
    z = drawn[questions] + rng.normal(0, own, (len(cells), SAMPLES))
    noise = rng.normal(size=drawn.shape)[questions]
    scores = skill * drawn[questions] + np.sqrt(1 - skill**2) * noise
    return scores, level + z, users, questions


def everyone(users: int, questions: int) -> list[tuple[int, int]]:
    return [(u, q) for u in range(users) for q in range(questions)]


def alone(users: int) -> list[tuple[int, int]]:
    return [(q // 3, q) for q in range(3 * users)]


def test_questions_of_one_user_each_change_nothing() -> None:
    rng = np.random.default_rng(3)
    scores, gold, users, questions = shared_world(rng, alone(12), 0.5)
    plain = best_of_curve(scores, gold, users, [1, 4, 8], bounds=None)
    assert best_of_curve(scores, gold, users, [1, 4, 8], questions=questions, bounds=None) == plain
    assert over_optimisation(
        scores, gold, users, [2, 3, 4], questions=questions
    ) == over_optimisation(scores, gold, users, [2, 3, 4])


def test_shared_questions_widen_all_that_rests_on_them() -> None:
    rng = np.random.default_rng(4)
    scores, gold, users, questions = shared_world(rng, everyone(24, 6), 0.3)
    plain = best_of_curve(scores, gold, users, [4], bounds=None).points[0]
    wider = best_of_curve(scores, gold, users, [4], questions=questions, bounds=None).points[0]
    for name in ("best", "oracle", "gain", "oracle_share"):
        one, other = getattr(plain, name), getattr(wider, name)
        assert one.value == other.value
        assert other.se > 1.5 * one.se
        assert other.df == pytest.approx(5 if name != "oracle_share" else other.df)
        assert other.df <= 5 + 1e-9
    # The gain's p is that of its interval: by user the sums share the questions.
    gain = wider.gain
    assert gain.p == pytest.approx(2 * stats.t(gain.df).sf(abs(gain.value / gain.se)))
    assert plain.gain.p is not None
    assert gain.p > plain.gain.p
    fits = [
        over_optimisation(scores, gold, users, [2, 3, 4], questions=q) for q in (None, questions)
    ]
    assert fits[1].alpha.se > fits[0].alpha.se


def test_oracle_share_by_leaving_questions_out_by_hand() -> None:
    rng = np.random.default_rng(5)
    scores, gold, users, questions = shared_world(rng, everyone(6, 8), 0.5)
    values = best_of(scores, gold, [1, 4])
    gained, room = values[:, 1] - values[:, 0], best_of(gold, gold, [4])[:, 0] - values[:, 0]
    by_hand = variance_by_hand(lambda kept: gained[kept].sum() / room[kept].sum(), users, questions)
    found = best_of_curve(scores, gold, users, [4], questions=questions, bounds=None)
    assert found.points[0].oracle_share.value == pytest.approx(gained.sum() / room.sum())
    assert found.points[0].oracle_share.se == pytest.approx(np.sqrt(by_hand))
