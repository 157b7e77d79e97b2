import dataclasses
import math
from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm
from hypothesis import assume, given
from hypothesis import strategies as st

from by_hand import dyads, effective, mean_of, parts_by_hand
from palate.metrics import Clusters, Estimate, accuracy, clustered_mean, macro_mean
from palate.metrics.arrays import Ids
from palate.metrics.clusters import effective_number

ROWS = st.lists(
    st.tuples(st.sampled_from([0.0, 0.5, 1.0]), st.integers(0, 6)), min_size=1, max_size=40
)


def same(one: Estimate, other: Estimate) -> None:
    for field in dataclasses.fields(Estimate):
        a, b = getattr(one, field.name), getattr(other, field.name)
        assert (a is None) == (b is None), field.name
        assert a is None or a == pytest.approx(b, abs=1e-12), field.name


def mirrored(e: Estimate) -> Estimate:
    low, high = (None if end is None else 1 - end for end in (e.high, e.low))
    return dataclasses.replace(e, value=1 - e.value, low=low, high=high)


def test_hand_worked() -> None:
    # Mean 2/3; sums of residuals 2/3, -1/3, -1/3; V = 2/3 · (4 + 1 + 1)/9 / 4² = 1/36.
    e = clustered_mean([1, 1, 0, 1, 1, 0], list("aabbcc"))
    assert e.value == pytest.approx(2 / 3)
    assert e.se == pytest.approx(1 / 6)
    assert e.df == pytest.approx(2)
    # t = 1 on 2 degrees of freedom: p = 1 - 1/√3.
    assert e.p == pytest.approx(1 - 1 / math.sqrt(3))


def test_macro_hand_worked() -> None:
    # User means 2/3, 1, 0: mean 5/9, sum of squares 14/27, V = 14/27 / 6.
    e = macro_mean([1, 1, 0, 1, 0], list("aaabc"))
    assert e.value == pytest.approx(5 / 9)
    assert e.se == pytest.approx(math.sqrt(14 / 27 / 6))
    assert (e.n, e.n_units, e.df) == (5, 3, pytest.approx(2))


def test_macro_does_not_leave_the_bounds_by_rounding() -> None:
    # 0.1 + 0.1 + 0.1 is above 0.3.
    assert macro_mean([0.1] * 3, ["a"] * 3, null=0, bounds=(0, 0.1)).value == 0.1


def test_effective_number() -> None:
    for rows, number in ((np.repeat([0, 1, 2], 3), 3), (np.array([0, 0, 1, 2]), 16 / 6)):
        assert effective_number((rows,), np.ones(rows.size)) == pytest.approx(number)
    assert effective_number((np.empty(0, dtype=int),), np.empty(0)) == 0
    # A row of a couple counts for both its users: 1, 2 and 1.
    couples = np.array([0, 1]), np.array([1, 2])
    assert effective_number(couples, np.ones(2)) == pytest.approx(16 / 6)


@given(ROWS)
def test_variance_is_that_of_leaving_each_user_out(rows: list[tuple[float, int]]) -> None:
    x, users = np.array([r[0] for r in rows]), np.array([r[1] for r in rows])
    e = clustered_mean(x, users)
    if e.se:
        by_user, *_ = parts_by_hand(mean_of(x), users, range(len(x)))
        assert e.se**2 == pytest.approx(by_user, rel=1e-9)


def test_equal_users_agree_with_statsmodels_cluster_robust_ols() -> None:
    # With equal users the jackknife is the sandwich times U/(U - 1), which is its default factor.
    rng = np.random.default_rng(3)
    users = np.repeat(np.arange(20), 7)
    x = (rng.random(140) < rng.beta(4, 3, 20)[users]).astype(float)
    fit = sm.OLS(x, np.ones(140)).fit(cov_type="cluster", cov_kwds={"groups": users})
    assert clustered_mean(x, users).se == pytest.approx(fit.bse[0], rel=1e-12)


def test_unequal_users_scale_each_sum_of_the_sandwich() -> None:
    # statsmodels on rows weighted N/(N - n_u) has the jackknife's sums.
    rng = np.random.default_rng(4)
    users = np.repeat(np.arange(12), np.arange(1, 13))
    x = rng.integers(0, 2, users.size).astype(float)
    n, counts = users.size, np.bincount(users)
    e = x - x.mean()
    scaled = e * n / (n - counts[users])
    sandwich = sm.stats.sandwich_covariance.S_crosssection(scaled[:, None], users)[0, 0] / n**2
    assert clustered_mean(x, users).se == pytest.approx(math.sqrt(11 / 12 * sandwich), rel=1e-12)


@given(st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=3, max_size=30))
def test_one_row_per_user_is_the_classical_standard_error(values: list[float]) -> None:
    users = list(range(len(values)))
    e = clustered_mean(values, users)
    if e.se:
        assert e.se == pytest.approx(np.std(values, ddof=1) / math.sqrt(len(values)), rel=1e-9)
        assert e.df == pytest.approx(len(values) - 1)
    same(e, macro_mean(values, users))


@given(ROWS)
def test_swapping_chosen_and_rejected_mirrors_the_estimate(rows: list[tuple[float, int]]) -> None:
    x, users = np.array([r[0] for r in rows]), [r[1] for r in rows]
    for mean in (clustered_mean, macro_mean):
        same(mean(1 - x, users), mirrored(mean(x, users)))


@given(ROWS, st.randoms(use_true_random=False))
def test_order_and_names_change_nothing(rows: list[tuple[float, int]], random: Any) -> None:
    shuffled = random.sample(rows, len(rows))
    for mean in (clustered_mean, macro_mean):
        e = mean([r[0] for r in rows], [r[1] for r in rows])
        same(e, mean([r[0] for r in shuffled], [("user", 9 - r[1]) for r in shuffled]))


@given(ROWS, st.lists(st.integers(0, 9), max_size=8))
def test_unscored_rows_move_nothing(rows: list[tuple[float, int]], extra: list[int]) -> None:
    e = accuracy([r[0] for r in rows], [r[1] for r in rows])
    more = accuracy([math.nan] * len(extra) + [r[0] for r in rows], extra + [r[1] for r in rows])
    same(e, more)


@given(ROWS)
def test_the_interval_holds_the_value_and_stays_in_bounds(rows: list[tuple[float, int]]) -> None:
    for mean in (clustered_mean, macro_mean):
        e = mean([r[0] for r in rows], [r[1] for r in rows])
        assert e.value is not None
        assert (e.low is None) == (e.high is None) == (e.p is None)
        if e.low is not None and e.high is not None and e.p is not None:
            assert 0 <= e.low <= e.value <= e.high <= 1
            assert 0 <= e.p <= 1


def test_ids_of_any_kind_but_never_mixed_up() -> None:
    assert clustered_mean([1, 0, 1, 1], [1, "1", (1,), None]).n_units == 4
    arrays: list[Ids] = [np.array(["x", "y", "x"]), np.array([7, 8, 7]), ["x", "y", "x"]]
    assert {clustered_mean([1, 0, 0], ids).n_units for ids in arrays} == {2}


def test_the_interval_covers_with_unequal_users() -> None:
    rng = np.random.default_rng(11)
    worlds, hits, macro_hits = 300, 0, 0
    users = np.repeat(np.arange(30), rng.integers(2, 60, 30))
    for _ in range(worlds):
        x = (rng.random(users.size) < rng.beta(6, 4, 30)[users]).astype(float)
        e, m = clustered_mean(x, users, null=0.6), macro_mean(x, users, null=0.6)
        hits += e.low <= 0.6 <= e.high
        macro_hits += m.low <= 0.6 <= m.high
        assert (e.p >= 0.05) == (e.low <= 0.6 <= e.high)
    assert 0.90 <= hits / worlds <= 0.985
    assert 0.90 <= macro_hits / worlds <= 0.985


def test_a_hundred_thousand_rows() -> None:
    rng = np.random.default_rng(0)
    users = rng.integers(0, 5_000, 100_000)
    e = clustered_mean(rng.integers(0, 2, 100_000), [f"user-{u}" for u in users])
    assert (e.n, e.n_units) == (100_000, np.unique(users).size)
    assert e.se == pytest.approx(0.5 / math.sqrt(100_000), rel=0.1)
    others = (users + rng.integers(1, 5_000, 100_000)) % 5_000
    couples = couple_mean(rng.choice([0, 0.5, 1], 100_000), users, others)
    assert couples.n == 100_000
    assert couples.se == pytest.approx(math.sqrt(1 / 6 / 100_000), rel=0.1)


def test_couples_have_no_mean_over_users() -> None:
    with pytest.raises(ValueError, match="not of couples"):
        macro_mean([1, 0], Clusters.of("ab", "bc"))


Couple = tuple[float, int, int]
COUPLES = st.lists(
    st.tuples(st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0]), st.integers(0, 7), st.integers(0, 7))
    .filter(lambda c: c[1] != c[2]),
    min_size=1,
    max_size=25,
)  # fmt: skip


def couple_mean(values: Any, a: Any, b: Any, **options: Any) -> Estimate:
    return clustered_mean(values, Clusters.of(a, b), **options)


def columns(couples: list[Couple]) -> tuple[list[float], list[int], list[int]]:
    return [c[0] for c in couples], [c[1] for c in couples], [c[2] for c in couples]


def test_hand_worked_path() -> None:
    # a-b-c-d-e, e = 1/4, -1/4, -1/4, 1/4. S = 1/4, 0, -1/2, 0, 1/4 with n = 1, 2, 2, 2, 1:
    # Σ (S/(4 - n))² = 1/144 + 1/16 + 1/144 = 11/144; Σ (T/3)² = 4/144; V_J = 7/144, V_D = 1/64.
    e = couple_mean([1, 0.5, 0.5, 1], list("abcd"), list("bcde"))
    assert e.se == pytest.approx(math.sqrt(7) / 12)
    assert e.df == pytest.approx(64 / 14 - 1)
    assert (e.value, e.n, e.n_units) == (0.75, 4, 5)


def test_hand_worked_floor() -> None:
    # e = 1/2, -1/2, 1/2, -1/2 on the same path: S = 1/2, 0, 0, 0, -1/2, so
    # V_J = 2/36 - 4/36 < 0, and V_D = 1/16.
    e = couple_mean([1, 0, 1, 0], list("abcd"), list("bcde"))
    assert e.se == pytest.approx(1 / 4)


@given(COUPLES)
def test_variance_is_that_of_leaving_out(couples: list[Couple]) -> None:
    x, a, b = columns(couples)
    e = couple_mean(x, a, b)
    if e.se:
        by_user, *_ = parts_by_hand(mean_of(x), dyads(a, b), [0] * len(x))
        assert e.se**2 == pytest.approx(by_user, abs=1e-12)


@given(COUPLES)
def test_degrees_of_freedom_are_the_effective_users_less_one(couples: list[Couple]) -> None:
    e = couple_mean(*columns(couples))
    assume(e.df is not None)
    assert e.df == pytest.approx(effective([u for c in couples for u in c[1:]]) - 1)


@given(COUPLES, st.integers(0, 2**32 - 1))
def test_a_scorer_blind_to_the_user_is_exactly_at_chance(couples: list[Couple], seed: int) -> None:
    # Whatever it says of the two responses, it is right for one of the two users.
    outcome = np.random.default_rng(seed).choice([0.0, 0.5, 1.0], len(couples))
    _, a, b = columns(couples)
    e = couple_mean((outcome + (1 - outcome)) / 2, a, b)
    assert (e.value, e.low, e.high, e.se, e.p) == (0.5, 0.5, 0.5, 0.0, 1.0)


@given(COUPLES, st.randoms(use_true_random=False))
def test_order_names_and_sides_change_nothing(couples: list[Couple], random: Any) -> None:
    turned = [c if random.random() < 0.5 else (c[0], c[2], c[1]) for c in couples]
    x, a, b = columns(random.sample(turned, len(turned)))
    renamed = couple_mean(x, [f"u{9 - i}" for i in a], [f"u{9 - i}" for i in b])
    same(couple_mean(*columns(couples)), renamed)


@given(COUPLES)
def test_flipping_every_value_mirrors_the_estimate(couples: list[Couple]) -> None:
    x, a, b = columns(couples)
    same(couple_mean([1 - v for v in x], a, b), mirrored(couple_mean(x, a, b)))


@given(COUPLES, st.integers(0, 7))
def test_unscored_couples_move_nothing(couples: list[Couple], user: int) -> None:
    x, a, b = columns(couples)
    same(couple_mean(x, a, b), couple_mean([math.nan, *x], [user, *a], [user + 1, *b]))


def test_disjoint_couples_are_independent() -> None:
    # Each S_u equals its T_d: Σ_u counts every couple twice, Σ_d once, so V_J is the jackknife's.
    x = [1, 0.5, 1, 0, 0.5, 1]
    e = couple_mean(x, list("abcdef"), list("ghijkl"))
    assert e.se == pytest.approx(np.std(x, ddof=1) / math.sqrt(6) * math.sqrt(6 / 5))
    assert e.df == pytest.approx(11)


def test_a_star_has_no_interval() -> None:
    e = couple_mean([1, 0, 1, 1], ["hub"] * 4, list("abcd"))
    assert (e.value, e.low, e.high, e.se, e.p) == (0.75, None, None, None, None)
    assert couple_mean([1, 1, 1], ["hub"] * 3, list("abc")).low == pytest.approx(0.025 ** (1 / 3))


def test_one_dyad_has_no_interval() -> None:
    assert couple_mean([1, 0, 1], ["a", "b", "a"], ["b", "a", "b"]).low is None


def test_a_user_is_never_their_own_partner() -> None:
    with pytest.raises(ValueError, match="two different users"):
        couple_mean([1, 0], ["a", "b"], ["b", "b"])
    with pytest.raises(ValueError, match="users 2, mirror users 1"):
        couple_mean([1, 0], ["a", "b"], ["c"])


def test_the_interval_covers_on_a_skewed_graph() -> None:
    rng = np.random.default_rng(5)
    weight = 1 / np.arange(1, 41)
    ends = np.array([rng.choice(40, 2, replace=False, p=weight / weight.sum()) for _ in range(250)])
    a, b = ends.T
    worlds, hits, independent = 300, 0, 0
    for _ in range(worlds):
        skill = rng.beta(3, 2, 40)
        x = ((rng.random(250) < skill[a]).astype(float) + (rng.random(250) < skill[b])) / 2
        e = couple_mean(x, a, b)
        assert e.high is not None
        hits += e.low <= 0.6 <= e.high
        independent += abs(x.mean() - 0.6) <= 1.96 * x.std() / math.sqrt(250)
    assert 0.90 <= hits / worlds <= 0.985
    assert independent / worlds < 0.85  # the trap that this estimator is for
