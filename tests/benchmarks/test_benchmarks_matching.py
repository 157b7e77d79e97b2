from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palate.benchmarks.mirrors import match_opposite

SIDE = st.lists(st.integers(0, 3), max_size=6)
SEEDS = st.integers(0, 2**32 - 1)


def largest_matching(a: list[int], b: list[int]) -> int:
    """By trying, for the first vote, no partner and every partner."""
    if not a:
        return 0
    best = largest_matching(a[1:], b)
    for j, user in enumerate(b):
        if user != a[0]:
            best = max(best, 1 + largest_matching(a[1:], b[:j] + b[j + 1 :]))
    return best


@settings(max_examples=60)
@given(st.lists(st.integers(0, 2), max_size=5), st.lists(st.integers(0, 2), max_size=5), SEEDS)
def test_no_matching_is_larger(a: list[int], b: list[int], seed: int) -> None:
    assert len(match_opposite(a, b, np.random.default_rng(seed))) == largest_matching(a, b)


@given(st.lists(st.integers(0, 5), max_size=20), st.lists(st.integers(0, 5), max_size=20), SEEDS)
def test_the_size_is_known_beforehand(a: list[int], b: list[int], seed: int) -> None:
    votes = Counter(a) + Counter(b)
    most = max(votes.values(), default=0)
    size = min(len(a), len(b), len(a) + len(b) - most)
    assert len(match_opposite(a, b, np.random.default_rng(seed))) == size


@given(SIDE, SIDE, SEEDS)
def test_partners_differ_and_no_vote_is_used_twice(a: list[int], b: list[int], seed: int) -> None:
    pairs = match_opposite(a, b, np.random.default_rng(seed))
    assert all(a[i] != b[j] for i, j in pairs)
    assert len({i for i, _ in pairs}) == len({j for _, j in pairs}) == len(pairs)
    assert pairs == sorted(pairs)


@given(SIDE, SIDE, SEEDS)
def test_a_seed_says_it_all(a: list[int], b: list[int], seed: int) -> None:
    first = match_opposite(a, b, np.random.default_rng(seed))
    assert match_opposite(a, b, np.random.default_rng(seed)) == first


@pytest.mark.parametrize("b", [list("vwxyz"), list("vwxya")])
def test_chance_chooses_among_the_matchings(b: list[str]) -> None:
    drawn = {tuple(match_opposite(list("abcde"), b, np.random.default_rng(s))) for s in range(20)}
    assert len(drawn) > 10


def test_shuffle_and_zip_would_lose_this_couple() -> None:
    # Ann votes on both sides: only ann-bob and bob-ann together make two couples.
    for seed in range(10):
        pairs = match_opposite(["ann", "bob"], ["ann", "bob"], np.random.default_rng(seed))
        assert pairs == [(0, 1), (1, 0)]


def test_nobody_to_match() -> None:
    rng = np.random.default_rng(0)
    assert match_opposite([], ["a"], rng) == []
    assert match_opposite(["a"], [], rng) == []
    assert match_opposite(["a", "a"], ["a"], rng) == []


def test_arrays_and_large_groups() -> None:
    users = np.arange(600)
    pairs = match_opposite(users, users[::-1], np.random.default_rng(1))
    assert len(pairs) == 600
    assert all(type(i) is int and type(j) is int for i, j in pairs)
