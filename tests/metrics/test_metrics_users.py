import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palate.metrics import macro_mean, worst_decile
from palate.metrics.users import user_means

NAN = math.nan
ROWS = st.lists(
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
    assert worst_decile([1, 0, 1, 1], list("abcd")).raw == 0
    assert worst_decile([1, 0, 1, 1], list("abcd")).shrunken == 0.75


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
    assert tail.raw is not None
    assert tail.shrunken is not None
    assert tail.raw < lowest - 0.1
    assert abs(tail.shrunken - lowest) < 0.06


def test_worst_decile_counts_the_border_in_part() -> None:
    # 25 users: the worst two and half of the third.
    values = [0.0, 0.5, 1.0] + [1.0] * 22
    assert worst_decile(values, list(range(25))).raw == pytest.approx((0 + 0.5 + 0.5 * 1) / 2.5)
    assert worst_decile(values[:3], list(range(3))).raw == 0


@given(ROWS)
def test_means_lie_between_user_and_all(rows: list[tuple[float, int]]) -> None:
    x, users = [r[0] for r in rows], [r[1] for r in rows]
    (raw_means, shrunken_means), overall = user_means(x, users), float(np.mean(x))
    for raw, shrunken in zip(raw_means, shrunken_means, strict=True):
        assert min(raw, overall) - 1e-12 <= shrunken <= max(raw, overall) + 1e-12
    tail = worst_decile(x, users)
    assert tail.raw is not None
    assert tail.raw <= raw_means.mean() + 1e-12
    assert raw_means.mean() == pytest.approx(macro_mean(x, users).value)


@given(ROWS)
def test_order_names_and_unscored_change_nothing(rows: list[tuple[float, int]]) -> None:
    one = worst_decile([r[0] for r in rows], [r[1] for r in rows])
    turned = rows[::-1]
    other = worst_decile([NAN] + [r[0] for r in turned], ["z"] + [f"u{r[1]}" for r in turned])
    assert other.raw == pytest.approx(one.raw, abs=1e-12)
    assert other.shrunken == pytest.approx(one.shrunken, abs=1e-9)


def test_edges() -> None:
    assert [means.size for means in user_means([NAN], ["a"])] == [0, 0]
    assert worst_decile([], []).raw is None
    assert worst_decile([1, 0], ["a", "a"]).shrunken == 0.5
