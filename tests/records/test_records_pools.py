"""Whose posts and choices are gathered, and the law of strangers: any third user, per row."""

from __future__ import annotations

import unicodedata
from collections import Counter
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from palate.benchmarks import load_benchmark
from palate.errors import DataError
from palate.records import (
    Choice,
    DistinctNames,
    Post,
    PreferencePair,
    User,
    UserPool,
    mirror_users_of,
    normal_form,
    third_users,
)

NAMES = "abcdefgh"


def pair(
    name: str, user: str, *posts: Post, mirror_of: str | None = None, **fields: object
) -> PreferencePair:
    return PreferencePair(
        id=name, user_id=user, text="Tea?", profile=posts, chosen="Green.", rejected="Black.",
        mirror_of=mirror_of, **fields,
    )  # fmt: skip


def post(name: str, date: str | None = None, text: str = "words") -> Post:
    return Post(id=name, text=text, date=date)


def test_posts_are_the_union_by_id_oldest_first() -> None:
    rows = [
        pair("1", "ann", post("p2", "2024-02-01"), post("p3", "2024-03-01")),
        pair("2", "ann", post("p1", "2024-01-01"), post("p2", "2024-02-01")),
    ]
    assert [p.id for p in UserPool.of(rows).users["ann"].posts] == ["p1", "p2", "p3"]


def test_without_every_date_the_order_of_the_file_counts() -> None:
    rows = [pair("1", "ann", post("p2", "2024-02-01"), post("p3")), pair("2", "ann", post("p1"))]
    assert [p.id for p in UserPool.of(rows).users["ann"].posts] == ["p2", "p3", "p1"]


def test_traits_are_gathered_over_rows() -> None:
    rows = [pair("1", "ann", traits={"age": "40"}), pair("2", "ann", traits={"town": "Ghent"})]
    assert UserPool.of(rows).users["ann"].traits == {"age": "40", "town": "Ghent"}


def test_a_row_has_a_partner_where_two_rows_of_two_users_name_each_other() -> None:
    rows = [
        pair("1", "ann", mirror_of="2"), pair("2", "bob", mirror_of="1"),
        pair("3", "ann", mirror_of="2"),  # 2 names another
        pair("4", "cy", mirror_of="9"), pair("5", "ann"),
        pair("6", "di", mirror_of="7"), pair("7", "di", mirror_of="6"),
    ]  # fmt: skip
    assert mirror_users_of(rows) == {"1": "bob", "2": "ann"}


@st.composite
def draws(draw: st.DrawFn) -> tuple[list[str], set[str], int, str]:
    pool = sorted(draw(st.sets(st.sampled_from(NAMES))))
    excluded = draw(st.sets(st.sampled_from(NAMES), max_size=2))
    return pool, excluded, draw(st.integers(1, 10)), draw(st.text(max_size=3))


@settings(max_examples=300)
@given(draws())
def test_third_users_are_of_the_pool_and_nobody_twice(
    drawn: tuple[list[str], set[str], int, str],
) -> None:
    pool, excluded, n, row = drawn
    left = set(pool) - excluded
    found = third_users(pool, excluded, n, row)
    assert len(found) == len(set(found)) == min(n, len(left))
    assert set(found) <= left
    assert found == third_users(pool, excluded, n, row)
    assert found == third_users(pool, excluded, n + 3, row)[:n]


@given(draws(), st.sets(st.sampled_from(NAMES), max_size=2))
def test_excluding_others_only_leaves_them_out(
    drawn: tuple[list[str], set[str], int, str], more: set[str]
) -> None:
    pool, excluded, _, row = drawn
    whole = third_users(pool, (), len(pool), row)
    for barred in (excluded, excluded | more):
        assert third_users(pool, barred, len(pool), row) == [n for n in whole if n not in barred]


def test_a_partner_matters_only_to_rows_that_drew_it() -> None:
    coupled = couples_of("abcdef", 100)
    bare = [row.model_copy(update={"mirror_of": None}) for row in coupled]
    with_partners, without = UserPool.of(coupled, 0), UserPool.of(bare, 0)
    changed = 0
    for row in coupled:
        before, after = (
            known.at(row.id, row.user_id).stranger("posts") for known in (without, with_partners)
        )
        assert before is not None and after is not None
        if before.id != with_partners.mirror_users[row.id]:
            assert after == before
        changed += after != before
    assert 0 < changed < len(coupled) / 3, "a partner is one of five"


def test_every_order_of_third_users_is_as_likely_as_another() -> None:
    drawn = Counter(
        tuple(third_users(list("abcdef"), {"b", "e"}, 3, seed, "row"))
        for seed in range(2400)
    )  # fmt: skip
    assert set(drawn) == set(permutations("acdf", 3))
    assert chisquare(list(drawn.values())).pvalue > 0.001


def test_a_draw_lists_no_users() -> None:
    pool = range(10**9)  # a list of them would take eight gigabytes
    found = third_users(pool, {3, 10**9 - 1}, 5, "row")  # type: ignore[arg-type]
    assert len(set(found)) == 5


@st.composite
def worlds(draw: st.DrawFn) -> list[PreferencePair]:
    """Rows of users with and without posts, some of them in couples."""
    users = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=12))
    bare = draw(st.sets(st.sampled_from(NAMES), max_size=3))
    rows = [
        pair(str(k), user, *(() if user in bare else (post(f"{user}{k}"),)))
        for k, user in enumerate(users)
    ]
    for k in range(0, len(rows) - 1, 2):
        ours, theirs = rows[k], rows[k + 1]
        if ours.user_id != theirs.user_id and draw(st.booleans()):
            rows[k] = ours.model_copy(update={"mirror_of": theirs.id})
            rows[k + 1] = theirs.model_copy(update={"mirror_of": ours.id})
    return rows


@settings(max_examples=200)
@given(worlds(), st.integers(0, 5), st.randoms())
def test_a_stranger_is_a_third_user_with_posts(
    rows: list[PreferencePair], seed: int, shuffle: object
) -> None:
    others, by_id = UserPool.of(rows, seed), {row.id: row for row in rows}
    with_posts = {row.user_id for row in rows if row.profile}
    mixed = list(rows)
    shuffle.shuffle(mixed)  # type: ignore[attr-defined]
    again = UserPool.of(mixed, seed)
    for row in rows:
        excluded = {row.user_id}
        if row.mirror_of:
            excluded.add(by_id[row.mirror_of].user_id)
        found = [others.at(row.id, row.user_id, k).stranger("posts") for k in range(len(NAMES) + 1)]
        named = [user.id for user in found if user is not None]
        assert sorted(named) == sorted(with_posts - excluded)
        assert found[len(named) :] == [None] * (len(found) - len(named))
        assert all(user.posts for user in found if user is not None)
        same = again.at(row.id, row.user_id).stranger("posts")
        assert (same and same.id) == (found[0] and found[0].id)


def couples_of(users: str, n: int) -> list[PreferencePair]:
    """Rows of couples, every two users in turn."""
    between = [(a, b) for a in users for b in users if a < b]
    rows = []
    for k in range(n):
        a, b = between[k % len(between)]
        rows += [
            pair(f"{k}a", a, post(a), mirror_of=f"{k}b"),
            pair(f"{k}b", b, post(b), mirror_of=f"{k}a"),
        ]
    return rows


def test_partners_of_other_couples_are_drawn_and_all_as_often() -> None:
    rows = couples_of("abcdef", 1500)
    others = UserPool.of(rows, 0)
    drawn = Counter()
    both = 0
    for row, mate in zip(rows[::2], rows[1::2], strict=True):
        ours, theirs = (others.at(one.id, one.user_id).stranger("posts") for one in (row, mate))
        assert ours is not None and theirs is not None
        both += ours.id == theirs.id
        for one, stranger in ((row, ours), (mate, theirs)):
            drawn[one.user_id, stranger.id] += 1
    assert len(drawn) == 6 * 5, "everybody is somebody's partner, and a stranger elsewhere"
    # 500 rows of each user; any other user is its partner in a fifth of them.
    assert chisquare(list(drawn.values())).pvalue > 0.001
    assert both == pytest.approx(1500 / 4, abs=4 * np.sqrt(1500 * 3 / 16)), "drawn row by row"


def test_another_seed_and_another_row_draw_others() -> None:
    rows = [pair(f"{k}", "a", post("a")) for k in range(60)]
    rows += [pair(name, name, post(name)) for name in "bcdefgh"]
    by_seed = [
        [
            found.id
            for row in rows[:60]
            if (found := UserPool.of(rows, seed).at(row.id, row.user_id).stranger("posts"))
        ]
        for seed in (0, 1)
    ]
    assert by_seed[0] != by_seed[1]
    assert set(by_seed[0]) == set("bcdefgh"), "one user's rows have many strangers"


@pytest.mark.parametrize(
    "rows",
    [
        [pair("1", "ann", post("p"))],
        [pair("1", "ann", post("p")), pair("2", "ann", post("q"))],
        [pair("1", "ann", post("p"), mirror_of="2"), pair("2", "bob", post("q"), mirror_of="1")],
        [pair("1", "ann"), pair("2", "bob")],
        [pair("1", "ann", mirror_of="2"), pair("2", "bob", post("q"), mirror_of="1")],
    ],
)
def test_where_there_is_no_third_user_there_is_no_stranger(rows: list[PreferencePair]) -> None:
    others = UserPool.of(rows)
    assert [others.at(row.id, row.user_id).stranger("posts") for row in rows] == [None] * len(rows)


@pytest.mark.parametrize("seed", range(3))
def test_on_tasting_every_row_has_a_stranger_who_is_no_partner_of_the_row(seed: int) -> None:
    tasting = load_benchmark("tasting")
    others, by_id = tasting.user_pools(seed), {row.id: row for row in tasting.pairs}
    elsewhere = 0
    mirror_users: dict[str, set[str]] = {}
    for row in tasting.pairs:
        mirror_users.setdefault(row.user_id, set()).add(by_id[row.mirror_of or ""].user_id)
    for row in tasting.pairs:
        stranger = others[row.subset].at(row.id, row.user_id).stranger("posts")
        assert stranger is not None
        assert stranger.id not in (row.user_id, by_id[row.mirror_of or ""].user_id)
        elsewhere += stranger.id in mirror_users[row.user_id]
    assert elsewhere > 0


def test_strangers_of_choices_are_drawn_among_users_with_choices() -> None:
    rows = [pair(name, name, post(name)) for name in "abcd"]
    history = [pair(f"past-{name}", name) for name in "bcdx"]
    for seed in range(20):
        others = UserPool.of(rows, seed, history)
        drawn = [others.at(row.id, row.user_id).stranger("choices") for row in rows]
        assert all(user is not None and user.choices for user in drawn)
        assert all(user and user.id != row.user_id for user, row in zip(drawn, rows, strict=True))
    assert isinstance(drawn[0], User)
    assert isinstance(drawn[0].choices[0], Choice)


# names and texts in normal form


@given(st.text())
def test_the_normal_form_is_its_own_and_knows_no_white_space_or_accent_form(text: str) -> None:
    form = normal_form(text)
    assert normal_form(form) == form
    assert normal_form(f"\r\n{text}\t ") == form
    assert normal_form(text.replace(" ", "\u00a0\n")) == form
    for other in ("NFC", "NFD"):
        assert normal_form(unicodedata.normalize(other, text)) == form


def test_names_differ_in_more_than_their_form() -> None:
    names = DistinctNames()
    for name in ("ana", "Ana", "ann", "ana"):
        names.add("user", name, "row 1")
    names.add("row", "ana ", "row 2")
    with pytest.raises(DataError, match=r"the user 'ana' \(row 1\) and the user 'ana ' \(row 3\)"):
        names.add("user", "ana ", "row 3")


def test_forms_that_look_alike_are_spelt_out() -> None:
    names = DistinctNames()
    names.add("user", "Jos\u00e9", "row 1")
    with pytest.raises(DataError, match=r"'Jos\\xe9' \(row 1\) and the user 'Jose\\u0301'"):
        names.add("user", "Jose\u0301", "row 2")
