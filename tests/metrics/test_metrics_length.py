import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palate.metrics import clustered_mean, length_controlled

NAN = math.nan
ROWS = st.lists(
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


@given(ROWS)
def test_variance_is_that_of_leaving_each_user_out(rows: list[tuple[float, int, int]]) -> None:
    x, d, users = (np.array(column) for column in zip(*rows, strict=True))
    lc = length_controlled(x, d + 5, np.full(d.size, 5), users)
    if not lc.se:
        return
    names = np.unique(users[d != 0])
    thetas = [
        (x[(d > 0) & (users != u)].mean() + x[(d < 0) & (users != u)].mean()) / 2 for u in names
    ]
    by_hand = (len(names) - 1) / len(names) * sum((t - lc.value) ** 2 for t in thetas)
    assert lc.se**2 == pytest.approx(by_hand, rel=1e-9)


@given(ROWS)
def test_a_scorer_of_length_gets_exactly_a_half(rows: list[tuple[float, int, int]]) -> None:
    d, users = np.array([r[1] for r in rows]), [r[2] for r in rows]
    for outcome in ((np.sign(d) + 1) / 2, (1 - np.sign(d)) / 2):
        e = length_controlled(outcome, d + 5, np.full(d.size, 5), users)
        if (d > 0).any() and (d < 0).any():
            assert (e.value, e.low, e.high, e.p) == (0.5, 0.5, 0.5, 1.0)
        else:
            assert (e.value, e.low, e.high) == (None, None, None)


@given(ROWS)
def test_flipping_outcomes_mirrors_and_turning_lengths_changes_nothing(
    rows: list[tuple[float, int, int]],
) -> None:
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
