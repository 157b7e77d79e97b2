import itertools
import math
from collections import Counter
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from correlated import half_blind
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.stats import rankdata

from by_hand import dyads, effective, mean_of, parts_by_hand
from palate.errors import UsageError
from palate.metrics import Clusters, Reliability, agreement_difference, reliability
from palate.metrics.rank_power import level_in_both
from palate.metrics.ranks import KENDALL

THREE = st.tuples(st.integers(3, 6), st.sampled_from([1, 9])).flatmap(
    lambda drawn: st.tuples(
        *[st.lists(st.integers(0, drawn[1]), min_size=drawn[0], max_size=drawn[0])] * 3
    )
)


def by_enumeration(first, second, y) -> float:
    a, b, y = rankdata(first), rankdata(second), np.array(y, dtype=float)
    (largest, many), *rest = Counter(zip(a, b, strict=True)).most_common()
    if many >= 3 and 4 * many >= len(y) and all(n < many for _, n in rest):
        a, b = a - largest[0], b - largest[1]
    swap = np.array(list(itertools.product([False, True], repeat=len(y))))
    moved = KENDALL(np.where(swap, b, a), y) - KENDALL(np.where(swap, a, b), y)
    sizes = np.abs(np.nan_to_num(moved))
    return float(np.mean(sizes >= sizes[0] - 1e-9))


@settings(max_examples=15)
@given(THREE)
@example(([0, 0, 0, 1, 2, -1], [0, 0, 0, 1, 2, 3], [2, 1, 3, 0, 5, 4]))
def test_exact_p_tries_every_exchange(columns) -> None:
    found = agreement_difference(*columns, draws=9)
    assert found.exact
    first, second, y = np.array(columns, dtype=float)
    for tau, x in ((found.first, first), (found.second, second)):
        assert tau == pytest.approx(float(KENDALL(x, y)[0])) or np.ptp(x) * np.ptp(y) == 0
    if found.value is None:
        assert found.p is None
        assert found.first is None or found.second is None
    else:
        assert found.p == pytest.approx(by_enumeration(*columns))


@settings(max_examples=10)
@given(THREE)
def test_exchanging_the_benchmarks_turns_the_sign(columns) -> None:
    first, second, y = columns
    a, b = agreement_difference(first, second, y), agreement_difference(second, first, y)
    assert a.p == pytest.approx(b.p)
    if a.value is not None and b.value is not None:
        assert a.value == pytest.approx(-b.value)
        assert a.value == pytest.approx((a.first or 0) - (a.second or 0))


def test_one_benchmark_twice() -> None:
    x, y = [1, 2, 3, 4, 5, 6], [1, 3, 2, 4, 6, 5]
    found = agreement_difference(x, x, y)
    assert (found.value, found.p) == (0, 1)


def test_five_scorers_cannot_show_a_difference() -> None:
    five = [1, 2, 3, 4, 5]
    assert agreement_difference(five, five[::-1], five).p == 2 / 16  # the third stays
    six = [1, 2, 3, 4, 5, 6]
    assert agreement_difference(six, six[::-1], six).p == 2 / 64


def test_to_exchange_who_is_level_in_both_changes_nothing() -> None:
    # Four blind at ½; in the second benchmark most of the others are above them.
    first = [0.5, 0.5, 0.5, 0.5, 0.3, 0.4, 0.6, 0.7, 0.8, 0.9]
    second = [0.5, 0.5, 0.5, 0.5, 0.7, 0.9, 0.6, 0.8, 0.55, 0.4]
    y = np.array([1, 2, 7, 8, 0, 4, 9, 5, 6, 3.0])
    found = agreement_difference(first, second, y)
    first_from_them, second_from_them = (rankdata(x) - rankdata(x)[0] for x in (first, second))
    # One column per exchange of the six others.
    swap = np.array(list(itertools.product([False, True], repeat=6)))
    swap = np.concatenate([np.zeros((64, 4), dtype=bool), swap], axis=1)
    one = np.where(swap, second_from_them, first_from_them)
    other = np.where(swap, first_from_them, second_from_them)
    sizes = np.abs(KENDALL(one, y) - KENDALL(other, y))
    assert (found.p, found.exact) == (np.mean(sizes >= sizes[0] - 1e-9), True)
    # Ranks that are not counted from the blind would say otherwise.
    plain = [rankdata(x) for x in (first, second)]
    swap = np.array(list(itertools.product([False, True], repeat=10)))
    moved = [KENDALL(np.where(swap, x, z), y) for x, z in (plain, plain[::-1])]
    sizes = np.abs(moved[0] - moved[1])
    assert found.p != pytest.approx(np.mean(sizes >= sizes[0] - 1e-9), abs=0.01)


@pytest.mark.parametrize(
    ("x1", "x2", "level"),
    [
        ([5, 5, 5, 1], [2, 2, 2, 2], [0, 1, 2]),
        ([5, 5, 5, 1], [2, 2, 3, 2], []),  # two are no set
        ([5, 5, 5, 1, 1, 1], [2, 2, 2, 4, 4, 4], []),  # two sets of one size
        ([5, 5, 5, *range(10)], [2, 2, 2, *range(10)], []),  # under a quarter
        ([5, 5, 5, *range(9)], [0, 0, 0, *range(9)], [0, 1, 2]),
        ([5, 5, 5, 5, 1, 1, 1], [2, 2, 2, 2, 4, 4, 4], [0, 1, 2, 3]),
    ],
)
def test_who_is_level_in_both(x1, x2, level) -> None:
    a, b = np.array(x1, dtype=float), np.array(x2, dtype=float)
    assert np.flatnonzero(level_in_both(a, b)).tolist() == level
    assert np.flatnonzero(level_in_both(b, a)).tolist() == level


def test_who_do_not_move_are_not_drawn_over() -> None:
    # 19 scorers, of whom ten move: every exchange of these is tried.
    rng = np.random.default_rng(3)
    first, second, y = half_blind(rng, 19, 9, 0.5, 0.5, 0.6)
    assert agreement_difference(first, second, y, draws=9).exact


def test_the_listing_of_scorers_changes_no_drawn_p() -> None:
    rng = np.random.default_rng(5)
    first, second, y = (rng.integers(0, 4, 16).astype(float) for _ in range(3))
    found = agreement_difference(first, second, y, draws=499)
    assert not found.exact
    for _ in range(5):
        order = rng.permutation(16)
        again = agreement_difference(first[order], second[order], y[order], draws=499)
        assert again.p == found.p


def test_drawn_exchanges_come_close_to_all() -> None:
    rng = np.random.default_rng(3)  # every scorer's ranks differ
    y = np.arange(14.0)
    first, second = y + rng.normal(0, 2, 14), y + rng.normal(0, 8, 14)

    def p(a: np.ndarray, b: np.ndarray, c: np.ndarray, seed: int = 0) -> float:
        found = agreement_difference(a, b, c, seed=seed, draws=8_000)
        assert not found.exact
        return found.p

    found, order = p(first, second, y), rng.permutation(14)
    assert found == pytest.approx(by_enumeration(first, second, y), abs=0.01)
    assert p(first[order], second[order], y[order]) == found
    assert p(second, first, y) == found
    assert p(first, second, y, seed=2) != found


def test_a_benchmark_without_order_has_no_difference() -> None:
    found = agreement_difference([1] * 5, [1, 2, 3, 4, 5], range(5))
    assert (found.first, found.second, found.value, found.p) == (None, 1, None, None)


def test_bad_input() -> None:
    with pytest.raises(UsageError, match="2 scorers"):
        agreement_difference([1, 2], [1, 2], [1, 2])
    with pytest.raises(ValueError, match="figures 4, downstream 3"):
        agreement_difference([1, 2, 3], [1, 2, 3, 4], [1, 2, 3])


VALUES = st.sampled_from([0.0, 0.25, 0.5, 1.0])


@st.composite
def tables(draw):
    """Rows of three to five scorers, with a user and a question each."""
    n, rows = draw(st.integers(3, 5)), draw(st.integers(4, 14))
    values = draw(st.lists(st.lists(VALUES, min_size=n, max_size=n), min_size=rows, max_size=rows))
    users = draw(st.lists(st.integers(0, 5), min_size=rows, max_size=rows))
    questions = draw(st.lists(st.integers(0, 4), min_size=rows, max_size=rows))
    return values, users, questions


def ends(error: float, n: int, df: float) -> list[float]:
    law = stats.f(n - 1, df)
    unclipped = [1 - error, 1 - error * law.ppf(0.975), 1 - error * law.ppf(0.025)]
    return [min(1.0, max(0.0, end)) for end in unclipped]


def by_hand(values: Any, users: list, questions: list, df: float) -> list[float] | None:
    noise = spread = 0.0
    columns = np.transpose(values)
    for a, b in combinations(columns, 2):
        by_user, by_item, by_cell = parts_by_hand(mean_of(a - b), users, questions)
        noise += max(0.0, by_user + by_item - by_cell)
        spread += float((a - b).mean()) ** 2
    return None if spread < 1e-20 else ends(noise / spread, len(columns), df)


def listed(found: Reliability | None) -> list[float] | None:
    return None if found is None else [found.value, found.low, found.high]


def same(found: Reliability | None, other: Reliability | None) -> None:
    assert (found is None) == (other is None)
    if found is not None:
        assert listed(found) == pytest.approx(listed(other), abs=1e-7)


@settings(max_examples=60)
@given(tables())
@example(([[0, 1, 0.5]] * 6, [0, 0, 1, 1, 2, 2], [0, 1, 2, 0, 1, 2]))
def test_it_is_that_of_all_pairs_with_each_cluster_left_out(table) -> None:
    values, users, questions = table
    # By question too only where two users share one; else a question counts with its user.
    shared = len(set(zip(users, questions, strict=True))) > len(set(questions))
    found = reliability(values, Clusters.of(users, questions=questions))
    items = questions if shared else users
    df = min(effective(users), effective(items)) - 1
    expected = None if df <= 1 else by_hand(values, users, items, df)
    assert (found is None) == (expected is None)
    if found is not None:
        assert listed(found) == pytest.approx(expected, abs=1e-9)


def test_couples_by_hand() -> None:
    # A ring of seven users on five questions, some of which two couples share.
    rng = np.random.default_rng(1)
    a = [*range(7)] * 2
    b = [(k + 1 + k // 7) % 7 for k in range(7)] + [(k + 3) % 7 for k in range(7)]
    questions = [0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1, 2, 3]
    x = rng.choice([0, 0.5, 1], (14, 3)) + np.array([0, 0.2, 0.5])
    found = reliability(x, Clusters.of(a, b, questions=questions))
    df = min(7.0, effective(questions)) - 1
    assert found.df == pytest.approx(df)
    assert listed(found) == pytest.approx(by_hand(x, dyads(a, b), questions, df))


@given(tables(), st.floats(0.1, 10), st.floats(-5, 5), st.randoms(use_true_random=False))
def test_units_listing_and_what_moves_all_alike_do_not_matter(table, scale, shift, random) -> None:
    values, users, questions = np.array(table[0]), table[1], table[2]
    found = reliability(values, Clusters.of(users, questions=questions))
    rows = Clusters.of(users, questions=questions)
    same(reliability(scale * values + shift, rows), found)
    hard = np.array([random.uniform(-1, 1) for _ in users])[:, None]
    same(reliability(values + hard, rows), found)
    order, names = random.sample(range(len(users)), len(users)), {u: f"u{u}" for u in users}
    turned = Clusters.of([names[users[k]] for k in order], questions=[questions[k] for k in order])
    scorers = random.sample(range(values.shape[1]), values.shape[1])
    same(reliability(values[order][:, scorers], turned), found)


def test_no_noise_and_no_difference() -> None:
    rows = Clusters.of([0, 1, 2, 3] * 2, questions=[0, 0, 1, 1, 2, 2, 3, 3])
    exact = reliability(np.tile([0.1, 0.4, 0.6], (8, 1)), rows)
    assert listed(exact) == pytest.approx([1, 1, 1])
    rng = np.random.default_rng(0)
    alike = rng.random((8, 1)) @ np.ones((1, 3))
    assert reliability(alike, rows) is None
    # Three permutations of one column: equal means, nothing to explain.
    assert reliability(np.stack([np.roll([1, 0] * 4, k) for k in (0, 1, 2)], axis=1), rows) is None


def test_where_it_is_not_defined() -> None:
    rng = np.random.default_rng(0)
    x = rng.random((12, 4)) + np.arange(4)
    many = Clusters.of(range(12))
    assert reliability(x, many) is not None
    assert reliability(x[:, :2], many) is None, "two scorers"
    assert reliability(x, Clusters.of([0, 1] * 6)) is None, "two users"
    two_questions = Clusters.of(list(range(6)) * 2, questions=[0] * 6 + [1] * 6)
    assert reliability(x, two_questions) is None, "two questions that users share"
    assert reliability(x, Clusters.of([0] * 12)) is None
    star = Clusters.of([0] * 12, range(1, 13))
    assert reliability(x, star) is None, "one user is in every couple"
    assert reliability(x[:0], Clusters.of([])) is None
    with pytest.raises(ValueError, match="finite values of shape"):
        reliability(np.where(x > 3, math.nan, x), many)
    with pytest.raises(ValueError, match="finite values of shape"):
        reliability(x[:, 0], many)
    with pytest.raises(ValueError, match="values 12, users 11"):
        reliability(x, Clusters.of(range(11)))
