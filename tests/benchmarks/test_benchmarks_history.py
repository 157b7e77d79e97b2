"""Past choices stay with a set of pairs, and are never a pair that is evaluated."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palate.benchmarks import Dataset, load_benchmark, mirrors
from palate.data import read_question
from palate.errors import BenchmarkError
from palate.records import Choice, Post, PreferencePair


def row(name: str, user: str, split: str | None = "test", **fields: Any) -> PreferencePair:
    base = {"text": f"Q {name}?", "chosen": f"Yes {name}.", "rejected": f"No {name}."}
    return PreferencePair(id=name, user_id=user, split=split, **{**base, **fields})


def past(name: str, user: str, **fields: Any) -> PreferencePair:
    return row(name, user, "adapt", **fields)


def ids(rows: tuple[PreferencePair, ...]) -> list[str]:
    return [one.id for one in rows]


MADE = Dataset("m", (past("1", "ann"), row("2", "ann"), past("3", "bob", tie=True),
                     past("4", "cy"), row("5", "bob"), row("6", "ann", "dev")))  # fmt: skip


def test_another_split_keeps_the_decided_rows_of_adapt() -> None:
    made = MADE.select()
    assert (ids(made.pairs), ids(made.history), made.history_left_out) == (
        ["2", "5"], ["1", "4"], 0,
    )  # fmt: skip
    assert ids(MADE.select("dev").history) == ["1", "4"]


@pytest.mark.parametrize("split", ["adapt", "all"])
def test_where_adapt_itself_is_read_there_is_no_history(split: str) -> None:
    assert MADE.select(split).history == ()


def test_a_set_without_splits_has_no_history() -> None:
    assert Dataset("m", (row("1", "ann", None), row("2", "bob", None))).select().history == ()


def test_limits_and_mirrors_leave_the_history_alone() -> None:
    votes = [row("a", "ann", text="Q?", chosen="x", rejected="y"),
             row("b", "bob", text="Q?", chosen="y", rejected="x"), row("c", "cy"),
             past("d", "ann"), past("e", "bob")]  # fmt: skip
    made = Dataset("m", tuple(votes)).select()
    assert ids(made.limit(1, 3).history) == ["d", "e"]
    coupled = mirrors(made)
    assert (len(coupled.pairs), ids(coupled.history)) == (2, ["d", "e"])
    assert ids(coupled.limit(1).history) == ["d", "e"]


def test_an_evaluated_pair_of_the_same_user_is_no_past_choice() -> None:
    test = row("t", "ann", text="Tea  or coffee?", chosen="Tea.", rejected="Coffee.")
    same = past("1", "ann", text="Tea or\ncoffee?", chosen="Tea.", rejected="Coffee.")
    turned = past("2", "ann", text="Tea or coffee?", chosen="Coffee.", rejected=" Tea.")
    others = past("3", "bob", text="Tea or coffee?", chosen="Tea.", rejected="Coffee.")
    third = past("4", "ann", text="Tea or coffee?", chosen="Tea.", rejected="Water.")
    made = Dataset("m", (test, same, turned, others, third)).select()
    assert (ids(made.history), made.history_left_out) == (["3", "4"], 2)
    users = made.user_pools()["all"].users
    assert users["ann"].choices == (
        Choice(question="Tea or coffee?", chosen="Tea.", rejected="Water."),
    )


def test_pairs_beyond_a_limit_are_evaluated_pairs_still() -> None:
    pairs = tuple(row(str(k), "ann") for k in range(6))
    cut = Dataset("m", pairs).select().limit(2)
    again = [pair.model_copy(update={"id": f"p{pair.id}"}) for pair in pairs]
    assert cut.with_history(again).history_left_out == 6


def test_an_id_that_is_evaluated_is_refused() -> None:
    made = Dataset("m", (row("1", "ann"), row("2", "bob"))).select()
    with pytest.raises(BenchmarkError, match="m: the past choice '2' has the id of an evaluated"):
        made.with_history([row("3", "ann"), row("2", "cy", text="Else?")])


def test_past_choices_from_elsewhere_are_added() -> None:
    made = MADE.select().with_history([row("x", "bob", None), row("y", "bob", None, tie=True)])
    assert ids(made.history) == ["1", "4", "x"]
    assert MADE.select().with_history([]).history == MADE.select().history
    unselected = Dataset("m", (row("1", "ann", None),)).with_history([row("2", "ann", None)])
    assert ids(unselected.select().history) == ["2"]


def test_choices_of_a_file_with_a_name_of_its_own_find_their_users() -> None:
    pairs = (row("1", "ann", None, subset="s"), row("2", "bob", None, subset="t"))
    file = [row("3", "ann", None, subset="choices"), row("4", "cy", None, subset="choices")]
    pools = Dataset("m", pairs).with_history(file).user_pools()
    assert {name: [u for u in o.users if o.users[u].choices] for name, o in pools.items()} == {
        "s": ["ann"], "t": [],
    }  # fmt: skip


def test_the_history_has_a_hash_of_its_own() -> None:
    made = MADE.select()
    less = replace(made, history=made.history[:1])
    assert made.content_hash == less.content_hash
    assert made.history_hash != less.history_hash
    assert made.history_hash == MADE.select().history_hash


def test_choices_come_in_the_order_of_the_file_and_their_posts_are_not_read() -> None:
    post = Post(id="p", text="a secret of the other split")
    rows = (past("1", "bob", profile=(post,)), past("2", "ann"), row("3", "ann"), past("4", "ann"))
    users = Dataset("m", rows).select().user_pools()["all"].users
    assert [choice.question for choice in users["ann"].choices] == ["Q 2?", "Q 4?"]
    assert (users["bob"].posts, len(users["bob"].choices)) == ((), 1)


@given(st.lists(st.sampled_from("abcdefgh"), max_size=12), st.integers(0, 9))
def test_a_history_moves_no_stranger_by_posts(whose: list[str], seed: int) -> None:
    pairs = tuple(row(u, u, None, profile=(Post(id=u, text=u),)) for u in "abcde")
    made = Dataset("m", pairs).select()
    more = made.with_history(row(f"p{k}", u, None) for k, u in enumerate(whose))
    before, after = made.user_pools(seed)["all"], more.user_pools(seed)["all"]
    for pair in pairs:
        at = (pool.at(pair.id, pair.user_id) for pool in (before, after))
        ours, theirs = (pool.stranger("posts") for pool in at)
        assert ours is not None and theirs is not None
        assert ours.posts == theirs.posts


def test_tasting_has_no_past_choices() -> None:
    assert load_benchmark("tasting").history == ()


def test_a_vote_that_is_evaluated_is_not_trained_on():
    def row(n: int, split: str, **more: str) -> PreferencePair:
        given = {"id": f"{split}{n}", "user_id": "ann", "question": f"{n}?", "chosen": "tea",
                 "rejected": "milk", "split": split}  # fmt: skip
        return read_question({**given, **more}, subset="all")

    turned = row(1, "adapt", chosen="milk", rejected=" tea ")
    other = row(1, "adapt", id="bob", user_id="bob")
    pairs = Dataset("votes", (row(0, "adapt"), turned, other, row(1, "test")))
    learnt = pairs.for_training()
    assert [pair.id for pair in learnt.pairs] == ["adapt0", "bob"]
    assert learnt.history_left_out == 1
    whole = Dataset("bare", tuple(p.model_copy(update={"split": None}) for p in pairs.pairs))
    assert len(whole.for_training().pairs) == 4
    tested = Dataset("votes", (row(1, "test"),))
    with pytest.raises(BenchmarkError, match=r"\(splits: test\); name one with --split"):
        tested.for_training()
    assert len(tested.for_training("test").pairs) == 1
    with pytest.raises(BenchmarkError, match="every row of adapt is in another split too"):
        Dataset("votes", (turned, row(1, "test"))).for_training()
