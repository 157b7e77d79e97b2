from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from by_hand import dyads, effective, mean_of, parts_by_hand, variance_by_hand
from palate.metrics import (
    Clusters,
    Estimate,
    clustered_mean,
    group_gap,
    length_controlled,
    macro_mean,
    paired_difference,
)
from palate.metrics.clusters import jackknife, ratio, variances


def two_way_mean(x: Any, users: Any, items: Any = None, mirrored: Any = None) -> Estimate:
    return clustered_mean(x, Clusters.of(users, mirrored, questions=items))


def couple_mean(x: Any, a: Any, b: Any) -> Estimate:
    return clustered_mean(x, Clusters.of(a, b))


def crossed(seed: int, users: int, items: int, rows: int) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(seed)
    u, i = rng.integers(0, users, rows), rng.integers(0, items, rows)
    level = rng.normal(size=items)
    return 1 / (1 + np.exp(-(level[i] + rng.normal(size=rows)))), u, i


def test_variance_by_leaving_out_users_items_and_cells() -> None:
    x, u, i = crossed(0, 10, 6, 80)
    found = two_way_mean(x, u, i)
    by_user, by_item, by_cell = parts_by_hand(mean_of(x), u, i)
    expected = by_user + by_item - by_cell
    assert expected > by_user
    assert found.value == pytest.approx(float(x.mean()))
    assert found.se == pytest.approx(np.sqrt(expected))
    df = effective(i) - 1  # the items are fewer
    assert found.df == pytest.approx(df)
    half = stats.t(df).ppf(0.975) * np.sqrt(expected)
    assert found.low == pytest.approx(x.mean() - half)
    assert (found.n, found.n_units) == (80, len(set(u)))


def test_without_shared_items_it_is_the_users_own() -> None:
    x, u, _ = crossed(1, 8, 5, 40)
    alone = clustered_mean(x, u)
    assert two_way_mean(x, u) == alone
    assert two_way_mean(x, u, np.arange(40)) == alone
    assert two_way_mean(x, u, [f"{a}'s {k % 2}" for k, a in enumerate(u)]) == alone


def test_never_less_than_by_user() -> None:
    # Two users of an item want opposite things: items cancel what users differ in.
    x = np.tile([0.9, 0.1], 12)
    u, i = np.tile(np.arange(8), 3), np.repeat(np.arange(12), 2)
    assert parts_by_hand(mean_of(x), u, i)[1] == pytest.approx(0)
    assert two_way_mean(x, u, i).se == pytest.approx(clustered_mean(x, u).se)


def test_one_item_for_all_says_nothing_of_other_items() -> None:
    found = two_way_mean([0.1, 0.4, 0.2, 0.7], list("abcd"), ["q"] * 4)
    assert (found.value, found.low, found.p) == (pytest.approx(0.35), None, None)
    assert found.note == "no interval: 1.0 effective questions, and more than 2 are needed"


def test_rows_without_a_value_are_left_out_of_both() -> None:
    x, u, i = crossed(2, 10, 6, 60)
    holed = x.copy()
    holed[::7] = np.nan
    there = ~np.isnan(holed)
    assert two_way_mean(holed, u, i) == two_way_mean(x[there], u[there], i[there])
    with pytest.raises(ValueError, match="users 60, questions 59"):
        two_way_mean(x, u, i[1:])


def test_a_variance_that_is_missing_is_not_made_up() -> None:
    rows = Clusters.of("abc", questions="qqq")
    assert clustered_mean([0.1, 0.4, 0.2], rows).se is None
    assert variances(ratio(np.array([0.1, 0.4, 0.2]), np.ones(3)), np.ones(3), rows) is None


def couples(seed: int, users: int, items: int, rows: int) -> tuple:
    rng = np.random.default_rng(seed)
    both = np.array([rng.choice(users, 2, replace=False) for _ in range(rows)])
    i = rng.integers(0, items, rows)
    taste, hard = rng.normal(0, 0.5, users), rng.normal(0, 2, items)
    x = taste[both].sum(axis=1) + hard[i] + rng.normal(size=rows)
    return 1 / (1 + np.exp(-x / 2)), both[:, 0].tolist(), both[:, 1].tolist(), i.tolist()


def test_variance_of_couples_by_leaving_out_users_pairs_and_items() -> None:
    x, a, b, i = couples(3, 8, 6, 60)
    found = two_way_mean(x, a, i, mirrored=b)
    by_user, by_item, by_cell = parts_by_hand(mean_of(x), dyads(a, b), i)
    expected = by_user + by_item - by_cell
    assert expected > by_user
    assert found.se == pytest.approx(np.sqrt(expected))
    assert found.n_units == len(set(a) | set(b))
    assert found.df == pytest.approx(effective(i) - 1)


def test_a_mean_of_couples_has_couple_means_variance_whatever_its_sums() -> None:
    # A ring: what users gain with one they lose with the other, so their sums cancel.
    x, a, b = np.array([0.9, 0.1, 0.9, 0.1]), list("abcd"), list("bcda")
    found = jackknife(ratio(x, np.ones(4)), np.ones(4), Clusters.of(a, b)).variance
    assert np.sqrt(found) == pytest.approx(couple_mean(x, a, b).se) == pytest.approx(0.2)
    assert found == pytest.approx(parts_by_hand(mean_of(x), dyads(a, b), range(4))[0])


def test_couples_without_shared_items_are_as_in_mirrored_accuracy() -> None:
    x, a, b, _ = couples(4, 8, 6, 40)
    alone = couple_mean(x, a, b)
    assert two_way_mean(x, a, mirrored=b) == alone
    assert two_way_mean(x, a, np.arange(40), mirrored=b) == alone
    of_the_pair = [f"{sorted(pair)}" for pair in zip(a, b, strict=True)]
    assert two_way_mean(x, a, of_the_pair, mirrored=b) == alone
    with pytest.raises(ValueError, match="two different users"):
        two_way_mean(x, a, mirrored=a)


def drawn(seed: int, n: int, users: int, texts: int) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(seed)
    x = rng.choice([0.0, 0.5, 1.0], n)
    pairs = [np.array([rng.choice(k, 2, replace=False) for _ in range(n)]) for k in (users, texts)]
    return x, *pairs


@pytest.mark.parametrize("seed", range(6))
def test_where_one_question_dominates_items_are_the_two_responses(seed: int) -> None:
    x, users, texts = drawn(seed, 30, 6, 7)
    rows = Clusters.of(users[:, 0], questions=["q"] * 30, texts=(texts[:, 0], texts[:, 1]))
    assert rows.items.unit == "texts"
    sides = users[:, 0], dyads(*texts.T)
    parts = variances(ratio(x, np.ones(30)), np.ones(30), rows)
    assert parts == pytest.approx(parts_by_hand(mean_of(x), *sides), abs=1e-12)
    found = clustered_mean(x, rows)
    assert found.se == pytest.approx(np.sqrt(variance_by_hand(mean_of(x), *sides)))
    assert found.df == pytest.approx(min(map(effective, (texts.ravel(), users[:, 0]))) - 1)


@pytest.mark.parametrize("seed", range(6))
def test_couples_over_two_responses_are_dyadic_on_both_sides(seed: int) -> None:
    x, users, texts = drawn(seed, 30, 6, 6)
    rows = Clusters.of(*users.T, questions=["q"] * 30, texts=tuple(texts.T))
    by_hand = parts_by_hand(mean_of(x), dyads(*users.T), dyads(*texts.T))
    parts = variances(ratio(x, np.ones(30)), np.ones(30), rows)
    assert parts == pytest.approx(by_hand, abs=1e-12)


def test_over_half_of_the_rows_is_more_than_half() -> None:
    texts = (list("abcdef"), list("bcdefa"))
    half = Clusters.of("uvwuvw", questions="qqqrrs", texts=texts)
    more = Clusters.of("uvwuvw", questions="qqqqrs", texts=texts)
    assert half.items.unit == "questions"
    assert more.items.unit == "questions and texts"
    # Within each group a question dominates, over all rows none does.
    grouped = Clusters.of("uvuv", questions="qqrr", texts=(list("abcd"), list("badc")))
    assert grouped.items.unit == "questions"
    of_groups = Clusters(grouped.users, grouped.questions, grouped.texts, np.array([0, 0, 1, 1]))
    assert of_groups.items.unit == "texts"


def test_where_every_question_has_one_user_texts_do_not_matter() -> None:
    # All responses are alike, as "yes" and "no" are.
    x, users = [1, 0, 1, 1, 0, 1], list("aaaabc")
    rows = Clusters.of(users, questions=list("qqqqrs"), texts=(["yes"] * 6, ["no"] * 6))
    assert rows.items is None
    assert clustered_mean(x, rows) == clustered_mean(x, users)


ROWS = st.lists(
    st.tuples(st.sampled_from([0.0, 0.5, 1.0]), st.integers(0, 4), st.integers(0, 5)),
    min_size=3,
    max_size=25,
)


@given(ROWS, st.randoms(use_true_random=False))
def test_neither_order_nor_names_matter(rows, random) -> None:
    x, users, asked = zip(*rows, strict=True)
    first = clustered_mean(x, Clusters.of(users, questions=asked))
    random.shuffle(rows)
    x, users, asked = zip(*rows, strict=True)
    again = clustered_mean(
        x, Clusters.of([f"user {u}" for u in users], questions=[f"{q}?" for q in asked])
    )
    for name in ("value", "low", "high", "p", "df"):
        one, other = getattr(first, name), getattr(again, name)
        assert (one is None) == (other is None)
        assert one is None or one == pytest.approx(other, abs=1e-9)


@given(ROWS)
def test_never_narrower_than_by_user(rows) -> None:
    x, users, asked = zip(*rows, strict=True)
    alone = clustered_mean(x, users)
    both = clustered_mean(x, Clusters.of(users, questions=asked))
    if both.df is not None and alone.df is not None:
        assert both.se >= alone.se - 1e-12
        assert both.df <= alone.df + 1e-12


@pytest.mark.parametrize("seed", range(4))
def test_macro_mean_leaves_out_questions_with_the_users_weights(seed: int) -> None:
    rng = np.random.default_rng(seed)
    users, asked = rng.integers(0, 5, 30), rng.integers(0, 6, 30)
    x = rng.choice([0.0, 0.5, 1.0], 30)
    weights = 1 / np.bincount(users)[users]

    def value_of(rows: list[int]) -> float:
        return float((x[rows] * weights[rows]).sum() / weights[rows].sum())

    found = macro_mean(x, Clusters.of(users, questions=asked))
    assert found.value == pytest.approx(np.mean([x[users == u].mean() for u in np.unique(users)]))
    assert found.se == pytest.approx(np.sqrt(variance_by_hand(value_of, users, asked)))


@pytest.mark.parametrize("seed", range(4))
def test_gaps_and_length_control_leave_out_questions_on_both_sides(seed: int) -> None:
    rng = np.random.default_rng(seed)
    users, asked = rng.integers(0, 6, 40), rng.integers(0, 7, 40)
    x, side = rng.choice([0.0, 0.5, 1.0], 40), rng.random(40) < 0.5
    rows = Clusters.of(users, questions=asked)

    def gap(at: list[int]) -> float:
        return float(x[at][side[at]].mean() - x[at][~side[at]].mean())

    def both(at: list[int]) -> float:
        return float(x[at][side[at]].mean() + x[at][~side[at]].mean()) / 2

    for value_of, found in (
        (gap, group_gap(x, side, rows)),
        (both, length_controlled(x, 2 + side, np.full(40, 2.5), rows)),
    ):
        assert found.value == pytest.approx(value_of(list(range(40))))
        assert found.se == pytest.approx(np.sqrt(variance_by_hand(value_of, users, asked)))


def test_a_difference_of_equal_values_is_a_point_however_much_is_shared() -> None:
    x = [1, 0, 1, 0.5, 0, 1]
    found = paired_difference(x, x, Clusters.of("abcabc", questions="qqqrrr"))
    assert (found.value, found.low, found.high, found.p) == (0.0, 0.0, 0.0, 1.0)


def test_a_figure_without_each_cluster() -> None:
    x, room = np.array([1.0, 2.0, 0.5]), np.array([2.0, 2.0, 1.0])
    without = ratio(x, room)((np.array([0, 1, 1]),))
    assert without == pytest.approx([2.5 / 3, 0.5])
    assert ratio(x, room)(()) == pytest.approx([0.7])
    assert np.isnan(ratio(x, room)((np.zeros(3, dtype=np.int64),))).all()


@pytest.mark.parametrize("seed", range(6))
def test_beside_a_dominating_question_the_others_stay_items(seed: int) -> None:
    # 20 of 32 rows are on one question, the others on four; some texts recur on the first.
    rng = np.random.default_rng(seed)
    n, users = 32, rng.integers(0, 6, 32)
    asked = np.where(np.arange(n) < 20, 0, 1 + rng.integers(0, 4, n))
    texts = np.array([rng.choice(7, 2, replace=False) for _ in range(n)])
    texts[20:] = 100 + np.arange(24).reshape(12, 2)
    x = rng.choice([0.0, 0.5, 1.0], n)
    rows = Clusters.of(users, questions=asked, texts=tuple(texts.T))
    assert rows.by == "user, question and text"
    items = [  # a row of another question lies in that question and in a cluster of its own
        frozenset(f"t{t}" for t in texts[k]) if k < 20 else frozenset([f"q{asked[k]}", f"r{k}"])
        for k in range(n)
    ]
    parts = variances(ratio(x, np.ones(n)), np.ones(n), rows)
    assert parts == pytest.approx(parts_by_hand(mean_of(x), users, items), abs=1e-12)
    # The effective number counts each question once, not the rows' own clusters.
    counted = [i for k in range(n) for i in (texts[k] if k < 20 else [1000 + asked[k]] * 2)]
    assert clustered_mean(x, rows).df == pytest.approx(min(map(effective, (counted, users))) - 1)


def test_a_dominating_question_with_texts_of_its_own_leaves_the_others_shared() -> None:
    # Every response of the dominating question is unique; two users share the other questions.
    users, asked = list("abcdeababab"), list("qqqqqqrrsst")
    texts = ([f"c{k}" for k in range(11)], [f"r{k}" for k in range(11)])
    x = np.array([1, 0, 1, 1, 0, 1, 1, 1, 0, 0, 1.0])
    rows = Clusters.of(users, questions=asked, texts=texts)
    assert rows.items is not None
    by_user = clustered_mean(x, users)
    assert clustered_mean(x, rows).se > by_user.se
    only_texts = Clusters.of(users[:6], questions=asked[:6], texts=(texts[0][:6], texts[1][:6]))
    assert only_texts.items is None


def test_clusters_are_not_given_twice() -> None:
    rows = Clusters.of("ab")
    with pytest.raises(ValueError, match="already"):
        Clusters.of(rows, questions="qr")
