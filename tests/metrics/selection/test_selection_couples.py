"""Contrasts: gold that sets a user against their mirror, so that units are couples."""

import numpy as np
import pytest

from palate.metrics import Clusters, clustered_mean
from palate.metrics.selection import best_of, best_of_curve, over_optimisation

SAMPLES = 8
USERS = 32


def world(
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
    scores, gold, users, mirrors = world(np.random.default_rng(0), 20, 0.0)
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
    scores, gold, users, mirrors = world(np.random.default_rng(1), 30, 0.8)
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
    scores, gold, users, mirrors = world(np.random.default_rng(2), 30, 0.8)
    values = best_of(scores, gold, [1, 4])
    gained = (values[:, 1] - values[:, 0]).reshape(-1, 2).mean(axis=1)
    room = (best_of(gold, gold, [4])[:, 0] - values[:, 0]).reshape(-1, 2).mean(axis=1)
    share = gained.sum() / room.sum()
    sides = [set(users[2 * c : 2 * c + 2]) for c in range(30)]

    def squares(gone: list) -> float:
        kept = [np.array([not left(side) for side in sides]) for left in gone]
        return float(sum((gained[k].sum() / room[k].sum() - share) ** 2 for k in kept))

    by_user = squares([lambda side, u=u: u in side for u in set(users)])
    pairs = [set(one) for one in {tuple(sorted(s)) for s in sides}]
    by_pair = squares([lambda side, p=p: side == p for p in pairs])
    point = best_of_curve(scores, gold, users, [4], mirrors=mirrors).points[0]
    assert point.oracle_share.value == pytest.approx(share)
    assert by_user > 2 * by_pair
    assert point.oracle_share.se == pytest.approx(np.sqrt(by_user - by_pair))


def test_both_rows_of_a_couple_count_or_none() -> None:
    scores, gold, users, mirrors = world(np.random.default_rng(3), 12, 0.8)
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
    scores, gold, users, mirrors = world(np.random.default_rng(4), 30, 0.8)
    fit = over_optimisation(scores, gold, users, [2, 3, 4], mirrors=mirrors)
    assert (fit.alpha.n, fit.n_left_out) == (30, 0)


def test_couples_that_share_questions_are_clustered_both_ways() -> None:
    rng = np.random.default_rng(5)
    scores, gold, users, mirrors = world(rng, 30, 0.8)
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
