import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import stdtrit

from palate.metrics import group_gap

NAN = math.nan
ROWS = st.lists(
    st.tuples(st.sampled_from([0.0, 0.5, 1.0]), st.booleans(), st.integers(0, 6)),
    min_size=2,
    max_size=40,
)


def brute(x: list[float], first: list[bool], users: list[int]) -> tuple[float, float] | None:
    """The gap and its variance by really leaving one user out after the other."""

    def gap(without: int | None) -> float | None:
        a = [v for v, f, u in zip(x, first, users, strict=True) if f and u != without]
        b = [v for v, f, u in zip(x, first, users, strict=True) if not f and u != without]
        return sum(a) / len(a) - sum(b) / len(b) if a and b else None

    whole, names = gap(None), sorted(set(users))
    left = [gap(name) for name in names]
    if whole is None or None in left:
        return None
    moved = sum((one - whole) ** 2 for one in left if one is not None)
    return whole, (len(names) - 1) / len(names) * moved


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
    assert paired.se is not None
    assert apart.se is not None
    assert paired.se < apart.se / 1.5


@given(ROWS)
def test_the_same_as_leaving_users_out_one_by_one(rows: list[tuple[float, bool, int]]) -> None:
    x, first, users = (list(column) for column in zip(*rows, strict=True))
    e, expected = group_gap(x, first, users), brute(x, first, users)
    if expected is None:
        assert e.se is None
        return
    assert e.value == pytest.approx(expected[0])
    if e.se:
        assert e.se == pytest.approx(math.sqrt(expected[1]))
        assert e.df is not None
        half = float(stdtrit(e.df, 0.975)) * e.se
        assert e.low == pytest.approx(max(-1, expected[0] - half))
        assert e.high == pytest.approx(min(1, expected[0] + half))


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
    assert opposite.low is not None
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
        assert e.low is not None
        assert e.high is not None
        covered += e.low <= 0.08 <= e.high
    assert 0.92 <= covered / worlds <= 0.98
