from __future__ import annotations

from collections import Counter
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palate.benchmarks import Dataset, load_benchmark, mirrors
from palate.benchmarks.selection import match_opposite
from palate.errors import BenchmarkError
from palate.records import PreferencePair

RESPONSES = ("Green.", "Black.", "Red.")
VOTES = st.lists(
    st.tuples(
        st.sampled_from(["ann", "bob", "cy"]),
        st.sampled_from(["Tea?", "Wine?"]),
        st.sampled_from([(a, b) for a in RESPONSES for b in RESPONSES if a != b]),
    ),
    min_size=2,
    max_size=9,
)
SEEDS = st.integers(0, 1000)


def made(votes: list[tuple[str, str, tuple[str, str]]]) -> Dataset:
    return Dataset(
        "votes",
        tuple(
            PreferencePair(
                id=f"v{k}", user_id=user, text=question, chosen=chosen, rejected=rejected
            )
            for k, (user, question, (chosen, rejected)) in enumerate(votes)
        ),
    )


def opposite(one: PreferencePair, other: PreferencePair) -> bool:
    return (
        one.user_id != other.user_id
        and one.text == other.text
        and (one.chosen, one.rejected) == (other.rejected, other.chosen)
    )


def most_couples(pairs: tuple[PreferencePair, ...]) -> int:
    @cache
    def best(free: frozenset[int]) -> int:
        if not free:
            return 0
        first, rest = min(free), free - {min(free)}
        found = [best(rest)]
        found += [1 + best(rest - {j}) for j in rest if opposite(pairs[first], pairs[j])]
        return max(found)

    return best(frozenset(range(len(pairs))))


def coupled(pairs: Dataset, seed: int) -> Dataset | None:
    try:
        return mirrors(pairs, seed)
    except BenchmarkError:
        return None


@settings(max_examples=150)
@given(VOTES, SEEDS)
def test_no_coupling_holds_more(votes: list[tuple[str, str, tuple[str, str]]], seed: int) -> None:
    pairs = made(votes)
    found = coupled(pairs, seed)
    assert (len(found.couples) if found else 0) == most_couples(pairs.pairs)


@given(VOTES, SEEDS)
def test_every_couple_is_lawful_and_every_pair_in_one(
    votes: list[tuple[str, str, tuple[str, str]]], seed: int
) -> None:
    pairs = made(votes)
    found = coupled(pairs, seed)
    if found is None:
        return
    assert found.mirrored
    assert sorted(i for both in found.couples for i in both) == list(range(len(found.pairs)))
    for i, j in found.couples:
        assert opposite(found.pairs[i], found.pairs[j])
        assert found.pairs[i].mirror_of == found.pairs[j].id
        assert found.pairs[j].mirror_of == found.pairs[i].id
    order = [pair.id for pair in pairs.pairs]
    assert [order.index(pair.id) for pair in found.pairs] == sorted(
        order.index(pair.id) for pair in found.pairs
    )
    assert mirrors(found, seed + 1) == found


@given(VOTES, SEEDS, st.randoms())
def test_the_couples_do_not_depend_on_the_order_of_rows(
    votes: list[tuple[str, str, tuple[str, str]]], seed: int, random: object
) -> None:
    pairs = made(votes)
    shuffled = list(pairs.pairs)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    one, other = coupled(pairs, seed), coupled(Dataset("votes", tuple(shuffled)), seed)
    assert (one is None) == (other is None)
    if one and other:
        ours, theirs = ({p.id: p.mirror_of for p in found.pairs} for found in (one, other))
        assert ours == theirs


def test_the_seed_draws_the_couples() -> None:
    votes = [(f"u{k}", "Tea?", RESPONSES[:2] if k % 2 else RESPONSES[1::-1]) for k in range(12)]
    drawn = {tuple(p.mirror_of for p in mirrors(made(votes), seed).pairs) for seed in range(20)}
    assert len(drawn) > 10


def named(one: PreferencePair, other: PreferencePair) -> tuple[PreferencePair, PreferencePair]:
    return (
        one.model_copy(update={"mirror_of": other.id}),
        other.model_copy(update={"mirror_of": one.id}),
    )


def test_mirror_of_wins_where_it_is_set_both_ways() -> None:
    green, black = RESPONSES[:2], RESPONSES[1::-1]
    votes = [("ann", "Tea?", green), ("bob", "Tea?", black), ("cy", "Tea?", black)]
    ann, bob, cy = made(votes).pairs
    for partner in (bob, cy):
        one, other = named(ann, partner)
        rest = cy if partner is bob else bob
        for seed in range(10):
            found = mirrors(Dataset("votes", (one, other, rest)), seed)
            assert {pair.id for pair in found.pairs} == {ann.id, partner.id}


def test_mirror_of_wins_even_where_fewer_couples_are_left() -> None:
    green, black = RESPONSES[:2], RESPONSES[1::-1]
    users = [("ann", green), ("bob", green), ("ann", black), ("cy", black)]
    a, b, a2, c = made([(user, "Tea?", way) for user, way in users]).pairs
    assert len(mirrors(Dataset("votes", (a, b, a2, c))).couples) == 2
    b, c = named(b, c)
    found = mirrors(Dataset("votes", (a, b, a2, c)))
    assert [pair.id for pair in found.pairs] == [b.id, c.id]


def test_a_mirror_of_that_is_not_answered_is_drawn_anew() -> None:
    ann, bob = made([("ann", "Tea?", RESPONSES[:2]), ("bob", "Tea?", RESPONSES[1::-1])]).pairs
    found = mirrors(Dataset("votes", (ann.model_copy(update={"mirror_of": "gone"}), bob)))
    assert [pair.mirror_of for pair in found.pairs] == [bob.id, ann.id]


def test_where_nobody_disagrees_there_is_no_couple() -> None:
    votes = [("ann", "Tea?", RESPONSES[:2]), ("bob", "Tea?", RESPONSES[:2]),
             ("ann", "Tea?", RESPONSES[1::-1])]  # fmt: skip
    assert len(mirrors(made(votes)).couples) == 1
    with pytest.raises(BenchmarkError, match="votes: no two users chose oppositely"):
        mirrors(made([votes[0], votes[2]]))


def test_tasting_is_its_own_mirror() -> None:
    pairs = load_benchmark("tasting")
    assert mirrors(pairs, 7).pairs == pairs.pairs


# the matching itself

SIDE = st.lists(st.integers(0, 3), max_size=6)


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
