import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import stdtrit

from by_hand import ValueOf, parts_by_hand
from palate.metrics import clustered_mean, group_gap, length_controlled, macro_mean, worst_decile
from palate.metrics.means import user_means

NAN = math.nan
ROWS = st.lists(
    st.tuples(st.sampled_from([0.0, 0.5, 1.0]), st.booleans(), st.integers(0, 6)),
    min_size=2,
    max_size=40,
)


def gap_of(x: list[float], first: list[bool]) -> ValueOf:
    """Mean of the first group less that of the second; NaN where one is empty."""
    x, first = np.array(x), np.array(first)

    def gap(rows: list[int]) -> float:
        sides = [x[rows][side] for side in (first[rows], ~first[rows])]
        return float(sides[0].mean() - sides[1].mean()) if all(map(len, sides)) else NAN

    return gap


def test_hand_worked_gap_of_users_who_are_in_one_group_each() -> None:
    # Means 2/3 and 1/3. Left out, a or b moves the first mean by -1/6, c by +1/3; the second alike:
    # V = 5/6 · 2 · (1/36 + 1/36 + 1/9) = 5/18. Six users of weight 1/3 each: t with 5.
    e = group_gap([1, 1, 0, 1, 0, 0], [True] * 3 + [False] * 3, list("abcdef"))
    assert e.value == pytest.approx(1 / 3)
    assert e.se == pytest.approx(math.sqrt(5 / 18))
    assert (e.n, e.n_units, e.df) == (6, 6, pytest.approx(5))
    assert (e.low, e.high) == (-1.0, 1.0), "clipped"


def test_what_a_user_shares_between_both_groups_cancels() -> None:
    # Users differ a lot, their two groups by 1/2 each and always: the gap is known exactly.
    values = [v for k in range(10) for v in ((1.0, 0.5) if k % 2 else (0.5, 0.0))]
    users = [k for k in range(10) for _ in "ab"]
    paired = group_gap(values, [True, False] * 10, users)
    apart = group_gap(values, [True, False] * 10, list(range(20)))
    assert paired.value == apart.value == 0.5
    assert paired.se is None, "no spread at all is no evidence of precision"
    values[0] = 1.0
    paired = group_gap(values, [True, False] * 10, users)
    apart = group_gap(values, [True, False] * 10, list(range(20)))
    assert paired.se < apart.se / 1.5


@given(ROWS)
def test_the_same_as_leaving_users_out_one_by_one(rows: list[tuple[float, bool, int]]) -> None:
    x, first, users = (list(column) for column in zip(*rows, strict=True))
    e, gap = group_gap(x, first, users), gap_of(x, first)
    by_user, *_ = parts_by_hand(gap, users, range(len(x)))
    if math.isnan(by_user):
        assert e.se is None
        return
    value = gap([*range(len(x))])
    assert e.value == pytest.approx(value)
    if e.se:
        assert e.se == pytest.approx(math.sqrt(by_user))
        half = float(stdtrit(e.df, 0.975)) * e.se
        assert e.low == pytest.approx(max(-1, value - half))
        assert e.high == pytest.approx(min(1, value + half))


@given(ROWS)
def test_order_names_unscored_and_sides(rows: list[tuple[float, bool, int]]) -> None:
    x, first, users = (list(column) for column in zip(*rows, strict=True))
    one = group_gap(x, first, users)
    turned = group_gap([*x[::-1], NAN], [*first[::-1], True], [*(f"u{u}" for u in users[::-1]), 9])
    other = group_gap(x, [not f for f in first], users)
    assert (turned.value is None) == (one.value is None)
    if one.value is not None:
        assert turned.value == pytest.approx(one.value)
        assert other.value == pytest.approx(-one.value)
        assert (one.low is None) == (other.high is None)
        if one.low is not None:
            assert other.high == pytest.approx(-one.low)
            assert other.p == pytest.approx(one.p)


def test_edges() -> None:
    assert group_gap([1, 0], [True, True], ["a", "b"]).value is None
    assert group_gap([1, NAN], [True, False], ["a", "b"]).value is None
    assert group_gap([], [], []).value is None
    alike = group_gap([1] * 8, [True, False] * 4, list(range(8)))
    assert (alike.value, alike.low, alike.p) == (0.0, None, None)
    opposite = group_gap([1, 0] * 20, [True, False] * 20, list(range(40)))
    assert opposite.value == opposite.high == 1.0
    assert 0.7 < opposite.low < 1
    alone = group_gap([1, 0, 1, 0], [True, True, False, False], ["a", "a", "b", "c"])
    assert (alone.value, alone.low, alone.p) == (0.0, None, None)
    with pytest.raises(ValueError, match="differ in length"):
        group_gap([1, 0], [True], ["a", "b"])


def test_the_interval_covers_in_simulated_worlds() -> None:
    # 40 users of unequal size and taste; a quarter of them in both groups.
    rng, covered, worlds = np.random.default_rng(4), 0, 400
    for _ in range(worlds):
        users = np.repeat(np.arange(40), rng.integers(2, 12, 40))
        taste = np.clip(rng.normal(0, 0.12, 40), -0.3, 0.3)[users]
        first = np.where(
            users < 15, True, np.where(users < 30, False, rng.random(users.size) < 0.5)
        )
        x = rng.random(users.size) < 0.6 + 0.08 * first + taste
        e = group_gap(x.astype(float), first, users)
        assert e.high is not None
        covered += e.low <= 0.08 <= e.high
    assert 0.92 <= covered / worlds <= 0.98


LENGTH_ROWS = st.lists(
    st.tuples(st.sampled_from([0.0, 0.5, 1.0]), st.integers(-2, 2), st.integers(0, 6)),
    min_size=1,
    max_size=40,
)


def test_hand_worked() -> None:
    # Longer: 1, 1, 0, 1 (3/4); shorter: 0, 1 (1/2); one of equal length, one unscored.
    lc = length_controlled(
        [1, 1, 0, 1, 0, 1, 1, NAN], [9, 9, 9, 9, 1, 1, 5, 5], [5] * 8, list("abcdefgh")
    )
    assert lc.value == (0.75 + 0.5) / 2
    assert (lc.n, lc.n_units) == (6, 6)
    # Without a row the longer side moves to 2/3 or 1, the shorter to 1 or 0; half of that, and
    # V = 5/6 · (3/24² + 1/8² + 2/4²). Weights 1/4 four times and 1/2 twice: U_eff = 4/0.75.
    assert lc.se == pytest.approx(math.sqrt(5 / 6 * (3 / 576 + 1 / 64 + 2 / 16)))
    assert lc.df == pytest.approx(4 / 0.75 - 1)


@given(LENGTH_ROWS)
def test_variance_is_that_of_leaving_each_user_out(rows: list[tuple[float, int, int]]) -> None:
    x, d, users = (np.array(column) for column in zip(*rows, strict=True))
    lc = length_controlled(x, d + 5, np.full(d.size, 5), users)
    if not lc.se:
        return
    x, d, users = x[d != 0], d[d != 0], users[d != 0]
    longer, by_side = d > 0, lambda rows, side: x[rows][side[rows]].mean()
    by_user, *_ = parts_by_hand(
        lambda rows: (by_side(rows, longer) + by_side(rows, ~longer)) / 2, users, users
    )
    assert lc.se**2 == pytest.approx(by_user, rel=1e-9)


@given(LENGTH_ROWS)
def test_a_scorer_of_length_gets_exactly_a_half(rows: list[tuple[float, int, int]]) -> None:
    d, users = np.array([r[1] for r in rows]), [r[2] for r in rows]
    for outcome in ((np.sign(d) + 1) / 2, (1 - np.sign(d)) / 2):
        e = length_controlled(outcome, d + 5, np.full(d.size, 5), users)
        if (d > 0).any() and (d < 0).any():
            assert (e.value, e.low, e.high, e.p) == (0.5, 0.5, 0.5, 1.0)
        else:
            assert (e.value, e.low, e.high) == (None, None, None)


@given(LENGTH_ROWS)
def test_flipping_outcomes_mirrors_and_turning_lengths_changes_nothing(rows):
    x, d, users = (np.array(column) for column in zip(*rows, strict=True))
    five = np.full(d.size, 5)
    e = length_controlled(x, d + 5, five, users)
    mirrored = length_controlled(1 - x, d + 5, five, users)
    turned = length_controlled(x, five, d + 5, users)
    for value, flipped, same in [
        (e.value, mirrored.value, turned.value),
        (e.low, mirrored.high, turned.low),
        (e.high, mirrored.low, turned.high),
    ]:
        if value is None:
            assert flipped is None
            assert same is None
        else:
            assert flipped == pytest.approx(1 - value, abs=1e-12)
            assert same == pytest.approx(value, abs=1e-12)


def test_balanced_sides_and_users_are_the_plain_mean() -> None:
    # Every user has one row of each side, so leaving one out keeps the balance.
    x, users = [1, 0, 1, 1, 0, 1, 1, 0], [0, 0, 1, 1, 2, 2, 3, 3]
    lc = length_controlled(x, [9, 1] * 4, [5] * 8, users)
    plain = clustered_mean(x, users)
    assert lc.value == plain.value
    assert lc.se == pytest.approx(plain.se)
    assert plain.se == pytest.approx(math.sqrt(3 / 4 * 0.75 / 36))
    assert lc.df == pytest.approx(plain.df)


def test_an_empty_side_is_undefined_but_counted() -> None:
    lc = length_controlled([1, 0, 1], [3, 4, 2], [1, 1, 2], list("abc"))
    assert (lc.value, lc.low, lc.n) == (None, None, 2)
    assert length_controlled([], [], [], []).n == 0


def test_one_user_holding_a_side_leaves_no_interval() -> None:
    lc = length_controlled([1, 0, 1, 0, 1], [9, 9, 9, 1, 1], [5] * 5, list("abcdd"))
    assert lc.value == pytest.approx((2 / 3 + 1 / 2) / 2)
    assert (lc.low, lc.p) == (None, None)


def test_all_right_is_one_sided() -> None:
    lc = length_controlled([1] * 6, [9, 9, 9, 1, 1, 1], [5] * 6, list("abcdef"))
    assert lc.low == pytest.approx(0.025 ** (1 / 6))
    assert lc.high == 1


def test_columns_are_checked() -> None:
    with pytest.raises(ValueError, match="lengths must be finite"):
        length_controlled([1], [NAN], [3], ["a"])
    with pytest.raises(ValueError, match="columns differ"):
        length_controlled([1, 0], [1], [3, 4], ["a", "b"])


def test_a_hundred_thousand_rows() -> None:
    rng = np.random.default_rng(0)
    n = 100_000
    x, users = rng.integers(0, 2, n), rng.integers(0, 5_000, n)
    chosen, rejected = rng.integers(1, 99, (2, n))
    lc = length_controlled(x, chosen, rejected, users)
    assert lc.value == pytest.approx(0.5, abs=0.01)
    assert lc.n == np.count_nonzero(chosen != rejected)


USERS_ROWS = st.lists(
    st.tuples(st.sampled_from([0.0, 0.5, 1.0]), st.integers(0, 12)), min_size=1, max_size=60
)


def test_hand_worked_shrinkage() -> None:
    # Means 3/4 and 1/4 over 4 rows each; μ = 1/2; σ² = 2 · 3/4 / 6 = 1/4;
    # τ² = (4/16 + 4/16 - 1/4) / (8 - 32/8) = 1/16; w = 1/16 / (1/16 + 1/16) = 1/2.
    raw, shrunken = user_means([1, 1, 1, 0, 0, 0, 0, 1], list("aaaabbbb"))
    assert raw.tolist() == [0.75, 0.25]
    assert shrunken == pytest.approx([0.625, 0.375])


def test_unequal_users_shrink_by_how_little_they_say() -> None:
    raw, shrunken = user_means([1] * 20 + [0] * 20 + [1, 0, 0], ["a"] * 20 + ["b"] * 20 + ["c"] * 3)
    pulled = np.abs(shrunken - raw) / np.abs(raw - 21 / 43)
    assert pulled[2] > pulled[0] == pytest.approx(pulled[1])


def test_luck_alone_is_shrunken_away() -> None:
    # Every user has two rows, one right: users differ less than luck would have it.
    _, shrunken = user_means([1, 0] * 5 + [1, 1], [i // 2 for i in range(12)])
    assert shrunken == pytest.approx([7 / 12] * 6)


def test_one_row_a_user_tells_nothing() -> None:
    _, shrunken = user_means([1, 0, 1, 1], list("abcd"))
    assert shrunken.tolist() == [0.75] * 4
    assert worst_decile([1, 0, 1, 1], list("abcd"))["raw"] == 0
    assert worst_decile([1, 0, 1, 1], list("abcd"))["shrunken"] == 0.75


def test_no_luck_at_all_leaves_the_raw_means() -> None:
    _, shrunken = user_means([1, 1, 0, 0], list("aabb"))
    assert shrunken.tolist() == [1, 0]


def test_shrinkage_recovers_the_spread_of_a_simulation() -> None:
    rng = np.random.default_rng(6)
    truth = rng.normal(0.7, 0.1, 400)
    users = np.repeat(np.arange(400), 10)
    raw, shrunken = user_means(rng.random(4_000) < truth[users], users)
    raw_error = np.mean((raw - truth) ** 2)
    assert np.mean((shrunken - truth) ** 2) < raw_error / 2
    tail = worst_decile(rng.random(4_000) < truth[users], users)
    lowest = np.sort(truth)[:40].mean()
    assert tail["raw"] < lowest - 0.1
    assert abs(tail["shrunken"] - lowest) < 0.06


def test_worst_decile_counts_the_border_in_part() -> None:
    # 25 users: the worst two and half of the third.
    values = [0.0, 0.5, 1.0] + [1.0] * 22
    assert worst_decile(values, list(range(25)))["raw"] == pytest.approx((0 + 0.5 + 0.5 * 1) / 2.5)
    assert worst_decile(values[:3], list(range(3)))["raw"] == 0


@given(USERS_ROWS)
def test_means_lie_between_user_and_all(rows: list[tuple[float, int]]) -> None:
    x, users = [r[0] for r in rows], [r[1] for r in rows]
    (raw_means, shrunken_means), overall = user_means(x, users), float(np.mean(x))
    for raw, shrunken in zip(raw_means, shrunken_means, strict=True):
        assert min(raw, overall) - 1e-12 <= shrunken <= max(raw, overall) + 1e-12
    tail = worst_decile(x, users)
    assert tail["raw"] <= raw_means.mean() + 1e-12
    assert raw_means.mean() == pytest.approx(macro_mean(x, users).value)


@given(USERS_ROWS)
def test_order_names_and_unscored_change_nothing(rows: list[tuple[float, int]]) -> None:
    one = worst_decile([r[0] for r in rows], [r[1] for r in rows])
    turned = rows[::-1]
    other = worst_decile([NAN] + [r[0] for r in turned], ["z"] + [f"u{r[1]}" for r in turned])
    assert other["raw"] == pytest.approx(one["raw"], abs=1e-12)
    assert other["shrunken"] == pytest.approx(one["shrunken"], abs=1e-9)


def test_edges_of_users() -> None:
    assert [means.size for means in user_means([NAN], ["a"])] == [0, 0]
    assert worst_decile([], [])["raw"] is None
    assert worst_decile([1, 0], ["a", "a"])["shrunken"] == 0.5
