"""Strangers of the user's kind: who they are, how they are spelt, and what is refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pairs import rows_of
from palate.benchmarks import Dataset
from palate.comparison import evaluate
from palate.contexts import (
    build_context,
    kinds_of,
    of_user,
    refuse_other_draws,
    same_of,
    shows,
    strangers_of,
    usual_name,
    with_controls,
)
from palate.errors import BenchmarkError, SpecError
from palate.evaluation import ContextRow, Work
from palate.records import Choice, Post, PreferencePair, Settings, User, UserPool
from palate.session import default_session

REGIONS, AGES = ("North", "South", ""), ("30", "40")
KIND = "profile:2?of=stranger&same=region"


def pair(user: str, traits: Mapping[str, str], name: str = "", **fields: Any) -> PreferencePair:
    name = name or user
    posts = (Post(id=f"{user}1", text=f"{user} wrote"), Post(id=f"{user}2", text=f"{user} too"))
    row = {"text": f"Tea for {name}?", "chosen": f"Yes {name}.", "rejected": f"No {name}.",
           "profile": posts}  # fmt: skip
    return PreferencePair(id=name, user_id=user, traits=traits, **{**row, **fields})


def shown_users(row: ContextRow) -> set[str]:
    return {part.text.split()[0] for part in row.slate.shown if part.kind == "post"}


@st.composite
def worlds(draw: st.DrawFn) -> list[PreferencePair]:
    """Rows of users with traits and without, some of them in couples."""
    said = {
        user: {"region": draw(st.sampled_from(REGIONS)), "age": draw(st.sampled_from(AGES))}
        for user in "abcdefgh"
    }
    users = draw(st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=12))
    rows = [pair(user, said[user], str(k)) for k, user in enumerate(users)]
    for k in range(0, len(rows) - 1, 2):
        ours, theirs = rows[k], rows[k + 1]
        if ours.user_id != theirs.user_id and draw(st.booleans()):
            rows[k] = ours.model_copy(update={"mirror_of": theirs.id})
            rows[k + 1] = theirs.model_copy(update={"mirror_of": ours.id})
    return rows


@settings(max_examples=200)
@given(worlds(), st.sampled_from(["region", "age", "age,region"]), st.integers(0, 3))
def test_all_third_users_of_the_kind_are_drawn_and_nobody_else(
    rows: list[PreferencePair], same: str, seed: int
) -> None:
    by_id = {row.id: row for row in rows}
    users = {row.user_id: tuple(row.traits[name] for name in same.split(",")) for row in rows}
    pool = UserPool.of(rows, seed)
    for row in rows:
        barred = {row.user_id, by_id[row.mirror_of].user_id if row.mirror_of else row.user_id}
        alike = {
            user for user, kind in users.items() if kind == users[row.user_id] and all(kind)
        } - barred
        drawn = [pool.at(row.id, row.user_id, k).stranger("posts", same, kinds_of)
                 for k in range(len(users) + 1)]  # fmt: skip
        named = [user.id for user in drawn if user is not None]
        assert len(named) == len({*named}) and {*named} == alike
        assert drawn[len(named) :] == [None] * (len(drawn) - len(named))
        plain = pool.at(row.id, row.user_id).stranger("posts")
        assert plain is None or plain.id not in barred, "any stranger stays any stranger"


def test_a_value_that_nobody_shares_is_no_stranger() -> None:
    people = [pair("ann", {"region": "North"}), pair("bob", {"region": "North "}),
              pair("cy", {"region": "South"}), pair("di", {})]  # fmt: skip
    rows = rows_of(people, KIND)
    ann, bob, *others = rows
    assert (shown_users(ann), shown_users(bob)) == ({"bob"}, {"ann"})
    assert [row.slate.shown for row in others] == [(), ()]
    assert rows.no_stranger.tolist() == [False, False, True, True]
    run = evaluate(Dataset("made", tuple(people)), "longest", KIND, root=None)
    assert run.summary.unscored_reasons == {"no stranger": 2}


def test_the_parts_of_a_joined_context_are_of_one_stranger_of_the_kind() -> None:
    people = [pair(f"u{k}", {"region": REGIONS[k % 2], "name": f"n{k}"}) for k in range(12)]
    rows = rows_of(people, "traits:name+profile:2?of=stranger&same=region&draws=2")
    for k, row in enumerate(rows):
        own = people[k // 2]
        (name,) = {part.text.split("n")[-1] for part in row.slate.shown if part.kind == "trait"}
        (user,) = shown_users(row)
        assert user == f"u{name}" != own.user_id
        assert int(name) % 2 == int(own.user_id[1:]) % 2
    first, second = (shown_users(rows[k]) for k in (0, 1))
    assert first != second


@pytest.mark.parametrize(
    ("spec", "canonical", "usual"),
    [
        (KIND, KIND, "stranger:2?same=region"),
        ("stranger:02?same=region,age", "profile:2?of=stranger&same=age,region",
         "stranger:2?same=age,region"),
        ("examples:3?same=home%20town&draws=2&of=stranger",
         "examples:3?draws=2&of=stranger&same=home%20town",
         "examples:3?draws=2&of=stranger&same=home%20town"),
        ("traits+profile:3?same=age,a&of=stranger", "traits+profile:3?of=stranger&same=a,age",
         "traits+profile:3?of=stranger&same=a,age"),
        ("traits?of=stranger&same=cluster",) * 3,
    ],
)  # fmt: skip
def test_each_has_one_spelling(spec: str, canonical: str, usual: str) -> None:
    assert build_context(spec, default_session()).spec == canonical
    assert build_context(canonical, default_session()).spec == canonical
    assert (usual_name(canonical), shows(canonical)) == (usual, "stranger")
    own = of_user(canonical)
    assert (shows(own), same_of(own)) == ("user", None)
    assert strangers_of(own, ["none", own, canonical], of_kind=True) == [canonical]
    assert strangers_of(own, ["none", own, canonical]) == [], "any stranger is another context"


def test_controls_with_a_trait() -> None:
    session = default_session()
    assert with_controls(["profile:2", "rubric"], session, Settings(), "region") == [
        "none", "profile:2", "profile:2?of=stranger", KIND, "rubric",
    ]  # fmt: skip
    drawn = ["profile:2", "stranger:2?draws=3"]
    listed = with_controls(drawn, session, Settings(), "region")
    stranger = "profile:2?draws=3&of=stranger"
    assert listed[2:] == [stranger, f"{stranger}&same=region"]
    refuse_other_draws([*listed, KIND.replace("region", "age")])


def test_a_text_that_a_model_writes_is_of_the_same_stranger() -> None:
    spec = "plan:api:m?base_url=http://127.0.0.1:9/v1&of=stranger&same=region,age"
    context = build_context(spec, default_session())
    assert context.spec.endswith("&of=stranger&same=age,region")
    people = [pair(f"u{k}", {"region": REGIONS[k % 2], "age": "30"}) for k in range(8)]
    pool = UserPool.of(people)
    for person in people:
        read = context.inner(pool).shown(  # type: ignore[attr-defined]
            person.view, pool.users[person.user_id], pool.at(person.id, person.user_id)
        )
        (number,) = {int(part.text.split()[0][1:]) for part in read.parts}
        assert number % 2 == int(person.user_id[1:]) % 2


def test_clusters_hold_who_writes_alike() -> None:
    def written(k: int) -> str:
        return (
            "NO! Why? GO!! " * 4 + f"run {k}" if k % 2 else f"Quietly, we rested at {k} all day; "
        )

    users = {f"u{k:02}": User(id=f"u{k:02}", posts=(Post(id="1", text=written(k)),))
             for k in range(20)}  # fmt: skip
    users["chose"] = User(
        id="chose", choices=(Choice(question="?", chosen=written(1), rejected=""),)
    )
    users["silent"] = User(id="silent")
    kinds = kinds_of(users, "cluster")
    assert kinds == kinds_of(dict(reversed(users.items())), "cluster"), "in any order"
    assert set(kinds) == {*users} - {"silent"}
    loud, calm = ({kinds[f"u{k:02}"] for k in range(first, 20, 2)} for first in (1, 0))
    assert loud.isdisjoint(calm) and kinds["chose"] in loud
    assert 2 <= len(loud | calm) <= 3, "k is √(21/2), rounded; a cluster may be empty"
    assert kinds_of({"silent": users["silent"]}, "cluster") == {}
    trait = {"traits": {"cluster": "B"}}
    told = {name: user.model_copy(update=trait) for name, user in users.items()}
    assert {*kinds_of(told, "cluster").values()} == {("B",)}, "a trait of that name comes first"


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ("profile:3?same=region", "same chooses strangers; it goes with of=stranger"),
        ("profile:3?of=self&same=region", "it goes with of=stranger"),
        ("none?same=region", "unknown option 'same' (known: none)"),
        ("rubric?same=region", "unknown option 'same'"),
        ("profile:3?of=stranger&same=", "name each trait once, as in same=region,age"),
        ("profile:3?of=stranger&same=age,", "name each trait once"),
        ("profile:3?of=stranger&same=age,age", "name each trait once"),
        ("profile:3?of=stranger&same=age,cluster", "or cluster alone"),
        ("profile:3?of=stranger&same=cluster,age", "or cluster alone"),
        ("traits?same=age+profile:3?of=stranger", "same holds for the whole; write it once"),
        ("traits+profile:3?same=age", "it goes with of=stranger"),
    ],
)
def test_what_is_no_kind_is_refused(spec: str, problem: str) -> None:
    with pytest.raises(SpecError) as refused:
        build_context(spec, default_session())
    assert problem in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_trait_that_the_data_lacks_is_named_with_those_there_are() -> None:
    rows = Dataset("made", (pair("ann", {"age": "30"}), pair("bob", {"region": "North"})))
    told = r"made has no trait 'town' \(traits: age, region; --map traits=town reads a column"
    with pytest.raises(BenchmarkError, match=told):
        rows_of(rows, "profile:2?of=stranger&same=age,town")
    bare = [row.model_copy(update={"profile": ()}) for row in rows.rows]
    with pytest.raises(BenchmarkError, match="made has no posts or past choices to cluster users"):
        rows_of(bare, "traits?of=stranger&same=cluster")
    assert Work.of(root=None).context(KIND).same == "region"  # type: ignore[attr-defined]


def test_who_says_nothing_of_a_trait_is_of_no_kind() -> None:
    said = ["North", " North ", "N/A", "nan", "unknown", "Prefer  not to say", "", "South"]
    users = {f"u{k}": User(id=f"u{k}", traits={"region": it}) for k, it in enumerate(said)}
    kinds = kinds_of(users, "region")
    assert kinds == {"u0": ("North",), "u1": ("North",), "u7": ("South",)}
    rows = list(rows_of([pair(name, it.traits) for name, it in users.items()], KIND))
    assert [shown_users(row) for row in rows] == [{"u1"}, {"u0"}, *[set()] * 6]
