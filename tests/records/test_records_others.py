from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from palate.benchmarks import load_benchmark
from palate.records import Choice, Others, Post, PreferencePair, User
from palate.records.others import derangement


def pair(
    name: str, user: str, *posts: Post, mirror_of: str | None = None, **fields: object
) -> PreferencePair:
    return PreferencePair(
        id=name, user_id=user, question="Tea?", profile=posts, chosen="Green.", rejected="Black.",
        mirror_of=mirror_of, **fields,
    )  # fmt: skip


def post(name: str, date: str | None = None, text: str = "words") -> Post:
    return Post(id=name, text=text, date=date)


def allowed(i: int, j: int, names: list[str], barred: dict[str, frozenset[str]]) -> bool:
    return i != j and names[j] not in barred.get(names[i], frozenset())


def exists(names: list[str], barred: dict[str, frozenset[str]]) -> bool:
    n = range(len(names))
    return any(all(allowed(i, p[i], names, barred) for i in n) for p in permutations(n))


@st.composite
def bars(draw: st.DrawFn) -> tuple[list[str], dict[str, frozenset[str]]]:
    names = list("abcdef"[: draw(st.integers(0, 6))])
    couples = [(a, b) for a in names for b in names if a < b]
    drawn = draw(st.sets(st.sampled_from(couples))) if couples else set()
    barred = {n: frozenset(x for c in drawn if n in c for x in c if x != n) for n in names}
    return names, barred


@settings(max_examples=200)
@given(bars(), st.integers(0, 50))
def test_a_derangement_is_found_wherever_one_exists(
    drawn: tuple[list[str], dict[str, frozenset[str]]], seed: int
) -> None:
    names, barred = drawn
    found = derangement(names, barred, seed)
    for mine, theirs in found.items():
        assert mine != theirs
        assert theirs not in barred[mine]
    assert len(set(found.values())) == len(found)
    assert (len(found) == len(names)) == exists(names, barred)


def test_swaps_alone_would_get_stuck_here() -> None:
    # Only a -> b -> c -> d -> a (and its inverse) remain of four users in two barred couples.
    barred = {"a": frozenset("c"), "c": frozenset("a"), "b": frozenset("d"), "d": frozenset("b")}
    for seed in range(30):
        found = derangement(list("abcd"), barred, seed)
        assert len(found) == 4
        assert all(theirs not in barred[mine] for mine, theirs in found.items())


def test_the_seed_draws_and_the_same_seed_repeats() -> None:
    names = list("abcdefgh")
    drawn = [derangement(names, {}, seed) for seed in range(10)]
    assert drawn == [derangement(names, {}, seed) for seed in range(10)]
    assert len({tuple(found.values()) for found in drawn}) > 5


def test_every_stranger_is_as_likely_as_another() -> None:
    counts = dict.fromkeys("bcd", 0)
    for seed in range(900):
        counts[derangement(list("abcd"), {}, seed)["a"]] += 1
    assert all(abs(count - 300) < 75 for count in counts.values())


def test_posts_are_the_union_by_id_oldest_first() -> None:
    rows = [
        pair("1", "ann", post("p2", "2024-02-01"), post("p3", "2024-03-01")),
        pair("2", "ann", post("p1", "2024-01-01"), post("p2", "2024-02-01")),
    ]
    assert [p.id for p in Others.of(rows).users["ann"].posts] == ["p1", "p2", "p3"]


def test_without_every_date_the_order_of_the_file_counts() -> None:
    rows = [pair("1", "ann", post("p2", "2024-02-01"), post("p3")), pair("2", "ann", post("p1"))]
    assert [p.id for p in Others.of(rows).users["ann"].posts] == ["p2", "p3", "p1"]


def test_traits_are_gathered_over_rows() -> None:
    rows = [pair("1", "ann", traits={"age": "40"}), pair("2", "ann", traits={"town": "Ghent"})]
    assert Others.of(rows).users["ann"].traits == {"age": "40", "town": "Ghent"}


def test_a_partner_is_known_from_either_side() -> None:
    others = Others.of([pair("1", "ann", mirror_of="2"), pair("2", "bob"), pair("3", "cy")])
    assert others.partners == {"ann": frozenset({"bob"}), "bob": frozenset({"ann"})}


def test_strangers_are_drawn_among_users_with_posts() -> None:
    rows = [pair(name, name, post(name)) for name in "abc"]
    rows += [pair(name, name) for name in "xyz"]
    for seed in range(20):
        strangers = Others.of(rows, seed).strangers
        assert set(strangers) == set("abcxyz")
        assert set(strangers.values()) <= set("abc")
        assert all(mine != theirs for mine, theirs in strangers.items())
        assert sorted(strangers[name] for name in "abc") == list("abc")


@pytest.mark.parametrize(
    "rows",
    [
        [pair("1", "ann", post("p"))],
        [pair("1", "ann", post("p")), pair("2", "ann", post("q"))],
        [pair("1", "ann", post("p"), mirror_of="2"), pair("2", "bob", post("q"), mirror_of="1")],
        [pair("1", "ann"), pair("2", "bob")],
    ],
)
def test_where_there_can_be_no_stranger_there_is_none(rows: list[PreferencePair]) -> None:
    assert Others.of(rows).strangers == {}


def test_a_user_without_posts_never_gets_their_partner() -> None:
    rows = [pair("1", "ann", post("p"), mirror_of="2"), pair("2", "bob", mirror_of="1")]
    assert Others.of(rows).strangers == {}


def test_who_cannot_be_served_is_absent_and_the_rest_are_served() -> None:
    # ann is everyone's partner; the other three can only be strangers to each other.
    rows = [pair(f"{n}{k}", n, post(n), mirror_of=f"a{k}") for k, n in enumerate("bcd")]
    rows += [pair(f"a{k}", "a", post("a")) for k in range(3)]
    for seed in range(20):
        strangers = Others.of(rows, seed).strangers
        assert set(strangers) == set("bcd") == set(strangers.values())


@given(st.permutations(range(8)), st.integers(0, 20))
def test_strangers_do_not_depend_on_the_order_of_rows(order: list[int], seed: int) -> None:
    rows = [pair(str(k), f"u{k % 5}", post(f"p{k}")) for k in range(8)]
    assume(order != list(range(8)))
    shuffled = [rows[k] for k in order]
    assert Others.of(shuffled, seed).strangers == Others.of(rows, seed).strangers


@pytest.mark.parametrize("seed", range(5))
def test_on_tasting_everyone_has_a_stranger_who_is_no_partner(seed: int) -> None:
    for others in load_benchmark("tasting").others(seed).values():
        assert set(others.strangers) == set(others.users) == set(others.strangers.values())
        for mine, theirs in others.strangers.items():
            assert theirs != mine
            assert theirs not in others.partners[mine]


def chose(name: str, user: str, mirror_of: str | None = None) -> PreferencePair:
    return pair(f"past-{name}", user, mirror_of=mirror_of)


def test_strangers_of_choices_are_drawn_among_users_with_choices() -> None:
    rows = [pair(name, name, post(name)) for name in "abcd"]
    history = [chose(name, name) for name in "bcdx"]
    for seed in range(20):
        others = Others.of(rows, seed, history)
        strangers = others.choice_strangers
        assert set(strangers) == set("abcdx")
        assert set(strangers.values()) <= set("bcdx")
        assert all(mine != theirs for mine, theirs in strangers.items())
        assert set(others.strangers.values()) == set("abcd")


def test_a_partner_of_pairs_or_of_past_choices_is_no_stranger_of_choices() -> None:
    rows = [pair("1", "a", post("p"), mirror_of="2"), pair("2", "b", post("q"), mirror_of="1"),
            pair("3", "c", post("r")), pair("4", "d", post("s"))]  # fmt: skip
    history = [chose("a", "a", "past-c"), chose("b", "b"), chose("c", "c", "past-a"),
               chose("d", "d")]  # fmt: skip
    for seed in range(20):
        strangers = Others.of(rows, seed, history).choice_strangers
        assert (strangers["a"], strangers["c"]) == ("d", "b")
        assert strangers["b"] != "a"


@given(bars(), st.integers(0, 20))
def test_no_stranger_of_choices_is_a_partner(
    drawn: tuple[list[str], dict[str, frozenset[str]]], seed: int
) -> None:
    names, barred = drawn
    users = {
        name: User(id=name, choices=(Choice(question="?", chosen="y", rejected="n"),))
        for name in names
    }
    for mine, theirs in Others(users, barred, seed).choice_strangers.items():
        assert theirs != mine
        assert theirs not in barred[mine]
