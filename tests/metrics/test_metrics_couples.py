import dataclasses
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from palate.metrics import Clusters, Estimate, clustered_mean, mirrored_values

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


def same(one: Estimate, other: Estimate) -> None:
    for field in dataclasses.fields(Estimate):
        a, b = getattr(one, field.name), getattr(other, field.name)
        assert (a is None) == (b is None), field.name
        assert a is None or a == pytest.approx(b, abs=1e-12), field.name


def variance_by_leaving_out(couples: list[Couple]) -> float:
    """max(V_J, V_D), each mean taken afresh without the user's or the dyad's couples."""
    x = np.array([c[0] for c in couples])
    ends = [frozenset(c[1:]) for c in couples]
    moved = {True: 0.0, False: 0.0}
    users = {frozenset([u]) for pair in ends for u in pair}
    for out in users | set(ends):
        kept = np.array([not out <= pair for pair in ends])
        moved[len(out) == 1] += (x[kept].mean() - x.mean()) ** 2
    by_dyad = sum(
        sum(x[i] - x.mean() for i, p in enumerate(ends) if p == d) ** 2 for d in set(ends)
    )
    return float(max(moved[True] - moved[False], by_dyad / len(couples) ** 2))


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
    e = couple_mean(*columns(couples))
    if e.se:
        assert e.se**2 == pytest.approx(variance_by_leaving_out(couples), abs=1e-12)


@given(COUPLES)
def test_degrees_of_freedom_are_the_effective_users_less_one(couples: list[Couple]) -> None:
    e = couple_mean(*columns(couples))
    assume(e.df is not None)
    ends = [u for c in couples for u in c[1:]]
    squares = sum(ends.count(u) ** 2 for u in set(ends))
    assert e.df == pytest.approx(len(ends) ** 2 / squares - 1)


@given(COUPLES, st.integers(0, 2**32 - 1))
def test_a_scorer_blind_to_the_user_is_exactly_at_chance(couples: list[Couple], seed: int) -> None:
    # Whatever it says of the two responses, it is right for one of the two users.
    outcome = np.random.default_rng(seed).choice([0.0, 0.5, 1.0], len(couples))
    _, a, b = columns(couples)
    e = couple_mean(mirrored_values(outcome, 1 - outcome), a, b)
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
    e, f = couple_mean(x, a, b), couple_mean([1 - v for v in x], a, b)
    assert e.value is not None
    low = None if e.high is None else 1 - e.high
    high = None if e.low is None else 1 - e.low
    same(f, dataclasses.replace(e, value=1 - e.value, low=low, high=high))


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
        assert e.low is not None
        assert e.high is not None
        hits += e.low <= 0.6 <= e.high
        independent += abs(x.mean() - 0.6) <= 1.96 * x.std() / math.sqrt(250)
    assert 0.90 <= hits / worlds <= 0.985
    assert independent / worlds < 0.85  # the trap that this estimator is for


def test_a_hundred_thousand_couples() -> None:
    rng = np.random.default_rng(0)
    a = rng.integers(0, 5_000, 100_000)
    b = (a + rng.integers(1, 5_000, 100_000)) % 5_000
    e = couple_mean(rng.choice([0, 0.5, 1], 100_000), a, b)
    assert e.n == 100_000
    assert e.se == pytest.approx(math.sqrt(1 / 6 / 100_000), rel=0.1)
