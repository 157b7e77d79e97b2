"""Which pairs are trained on, and in which order."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palate.errors import DataError
from palate.learning.recipes.token_pairs import GROUP, TokenPair, in_batches, keep_users
from palate.records import PreferencePair


def pair(number: int, user: str = "u", *, tie: bool = False) -> PreferencePair:
    return PreferencePair(id=str(number), user_id=user, text="?", chosen="a", rejected="b", tie=tie)


def rows(n: int) -> list[TokenPair]:
    return [TokenPair((k,) * (1 + (7 * k) % 50), (k,)) for k in range(n)]


@given(
    n=st.integers(1, 60),
    batch_pairs=st.integers(1, 9),
    steps=st.integers(0, 40),
    seed=st.integers(0, 3),
)
def test_every_batch_is_full_and_every_row_is_seen_equally_often(n, batch_pairs, steps, seed):
    batches = list(in_batches(rows(n), batch_pairs, steps, seed))
    assert [len(batch) for batch in batches] == [batch_pairs] * steps
    counts = Counter(row for batch in batches for row in batch)
    assert all(abs(counts[row] - batch_pairs * steps / n) < 1 for row in rows(n))


def test_the_order_is_the_seeds():
    first, again, other = (list(in_batches(rows(40), 4, 30, seed)) for seed in (0, 0, 1))
    assert first == again != other


def test_batches_of_a_group_hold_rows_of_a_length():
    batches = list(in_batches(rows(GROUP * 4), 4, GROUP, seed=0))
    padded = sum(max(row.width for row in batch) for batch in batches)
    assert padded < sum(row.width for row in rows(GROUP * 4)) / 4 + 2 * GROUP
    widths = [max(row.width for row in batch) for batch in batches]
    assert widths != sorted(widths) != widths[::-1]


def test_users_left_out_are_left_out():
    pairs = [pair(0, "a"), pair(1, "b"), pair(2, "a", tie=True)]
    assert [p.id for p in keep_users(pairs, {"a"})] == ["1"]


@pytest.mark.parametrize(
    ("pairs", "leave_out", "message"),
    [
        ([], (), "no pair to train on"),
        ([pair(0, "a")], ["a"], r"no pair to train on \(1 users are left out\)"),
        ([pair(0), pair(1, tie=True)], (), "'1' is undecided"),
    ],
)
def test_nothing_or_undecided_is_refused(pairs, leave_out, message):
    with pytest.raises(DataError, match=message):
        keep_users(pairs, leave_out)
