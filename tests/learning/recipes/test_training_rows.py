"""Which pairs are trained on, and in which order."""

from __future__ import annotations

import os
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palate.errors import DataError, UsageError
from palate.learning.encoding import SORTED_TOGETHER, TokenPair, in_batches, keep_users
from palate.learning.recipes import new_folder
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
    batches = list(in_batches(rows(SORTED_TOGETHER * 4), 4, SORTED_TOGETHER, seed=0))
    padded = sum(max(row.width for row in batch) for batch in batches)
    assert padded < sum(row.width for row in rows(SORTED_TOGETHER * 4)) / 4 + 2 * SORTED_TOGETHER
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


@pytest.mark.parametrize("exists", [False, True])
def test_a_new_or_empty_folder_is_filled(tmp_path, exists):
    target = tmp_path / "models" / "rm"
    if exists:
        target.mkdir(parents=True)
    with new_folder(target) as made:
        (made / "weights").write_text("w")
        assert not target.exists() or not list(target.iterdir())
    assert [f.name for f in target.iterdir()] == ["weights"]
    assert [f.name for f in target.parent.iterdir()] == ["rm"]


def test_a_failure_leaves_nothing(tmp_path):
    with pytest.raises(KeyError), new_folder(tmp_path / "rm") as made:
        (made / "weights").write_text("w")
        raise KeyError
    assert not list(tmp_path.iterdir())


def test_what_is_there_is_never_overwritten(tmp_path):
    (tmp_path / "weights").write_text("theirs")
    for taken in (tmp_path, tmp_path / "weights"):
        with pytest.raises(UsageError, match="exists already"), new_folder(taken):
            pytest.fail("went on")
    assert (tmp_path / "weights").read_text() == "theirs"


def test_a_place_that_cannot_be_written_is_refused_first(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be written"), new_folder(tmp_path / "file" / "rm"):
        pytest.fail("went on")
    if os.geteuid():
        tmp_path.chmod(0o500)
        with pytest.raises(UsageError, match="cannot be written"), new_folder(tmp_path / "rm"):
            pytest.fail("went on")
