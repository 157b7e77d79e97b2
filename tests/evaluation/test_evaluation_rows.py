"""Rows of any kind: questions alone, any number of responses, users given in the call."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palate.benchmarks import Dataset, load_benchmark
from palate.contexts import build_context
from palate.errors import BenchmarkError, UsageError
from palate.evaluation import LiveUsers, evaluate, make_rows
from palate.records import Choice, Post, Question, User, UserPool
from palate.session import default_session

TASTING = load_benchmark("tasting")
POSTS = (Post(id="1", text="I drink strong tea."), Post(id="2", text="My boat leaks."))
CHOICES = (Choice(question="Tea or milk?", chosen="Tea.", rejected="Milk."),)
ZOE = User(id="zoe", posts=POSTS, choices=CHOICES)


def asked_by(user: str, *responses: str, subset: str = "all") -> Dataset:
    question = Question(
        id=f"q-{user}", user_id=user, text="Which tea?", responses=responses, subset=subset
    )
    return Dataset("asked", (question,))


def pool_of(*names: str) -> UserPool:
    return UserPool({
        name: User(id=name, posts=(Post(id=name, text=f"{name} wrote this of tea"),))
        for name in names
    })  # fmt: skip


@pytest.mark.parametrize("n", [0, 1, 2, 3, 16])
def test_a_question_has_any_number_of_responses(n: int) -> None:
    responses = tuple(f"response {k}" for k in range(n))
    rows = make_rows(asked_by("ann", *responses), build_context("none", default_session()), seed=0)
    assert sorted(rows[0].slate.candidates) == sorted(responses)
    assert rows[0].chosen_position is None
    turned = make_rows(
        asked_by("ann", *responses[::-1]), build_context("none", default_session()), seed=0
    )
    assert turned[0].slate == rows[0].slate, "the order of the data says nothing"


@given(st.lists(st.text(min_size=1, max_size=3), min_size=2, max_size=6, unique=True), st.data())
def test_two_users_rows_see_responses_in_one_order(texts: list[str], data: st.DataObject) -> None:
    shuffled = data.draw(st.permutations(texts))
    ours = make_rows(asked_by("ann", *texts), build_context("none", default_session()), seed=3)
    theirs = make_rows(asked_by("bob", *shuffled), build_context("none", default_session()), seed=3)
    assert ours[0].slate == theirs[0].slate


@pytest.mark.parametrize("n", [0, 1, 2, 3])
def test_evaluate_refuses_questions_in_one_line(n: int) -> None:
    with pytest.raises(BenchmarkError, match=r"asked: row 'q-ann' has no `chosen`") as caught:
        evaluate(asked_by("ann", *"abc"[:n]), "longest", root=None)
    assert "\n" not in str(caught.value)


def test_past_choices_are_pairs() -> None:
    rows = [*TASTING.pairs[:2], Question(id="x", user_id="ann", text="?", split="adapt")]
    some = Dataset("some", tuple(row.model_copy(update={"split": row.split or "test"})
                                 for row in rows))  # fmt: skip
    with pytest.raises(BenchmarkError, match="some, past choices: row 'x' has no `chosen`"):
        some.select()


def test_a_live_user_is_shown_what_the_call_gives() -> None:
    live = LiveUsers({"zoe": ZOE}, pool_of("ann", "bob"))
    rows = make_rows(
        asked_by("zoe", "Assam."), build_context("profile:1", default_session()), seed=0, live=live
    )
    assert [part.text for part in rows[0].slate.shown] == ["I drink strong tea."]
    rows = make_rows(
        asked_by("zoe", "Assam."), build_context("examples:1", default_session()), seed=0, live=live
    )
    assert "Tea or milk?" in rows[0].slate.shown[0].text


def test_a_live_users_stranger_is_of_the_pool_and_never_themselves() -> None:
    live = LiveUsers({"zoe": ZOE}, pool_of("ann", "bob", "zoe"))
    context = build_context("stranger:2", default_session())
    drawn = Counter()
    for k in range(40):
        data = asked_by("zoe", "Assam.")
        data = replace(data, rows=(data.rows[0].model_copy(update={"id": f"q{k}"}),))
        (part,) = make_rows(data, context, seed=0, live=live)[0].slate.shown
        drawn[part.text.split()[0]] += 1
    assert set(drawn) == {"ann", "bob"}
    assert min(drawn.values()) > 8


def test_a_live_user_is_nobodys_stranger() -> None:
    name = TASTING.pairs[0].user_id
    live = LiveUsers({name: User(id=name, posts=POSTS)})
    context = build_context("stranger:3", default_session())
    rows = make_rows(TASTING, context, seed=0, live=live)
    theirs = {post.text for pair in TASTING.pairs if pair.user_id == name for post in pair.profile}
    for k, row in enumerate(rows):
        shown = " ".join(part.text for part in row.slate.shown)
        assert not any(text[:40] in shown for text in theirs), k
        assert not any(post.text in shown for post in POSTS), k
    others = make_rows(TASTING, context, seed=0)
    same = sum(a.slate == b.slate for a, b in zip(rows, others, strict=True))
    assert same > len(rows) / 2, "only rows that would have drawn them are drawn anew"


@pytest.mark.parametrize(
    ("user", "spec", "said"),
    [
        (User(id="zoe"), "profile:2", "user 'zoe' has no posts, so there is no context profile:2"),
        (User(id="zoe", posts=POSTS), "examples:2", "user 'zoe' has no choices"),
    ],
)
def test_a_live_user_without_what_is_shown_is_refused(user: User, spec: str, said: str) -> None:
    with pytest.raises(UsageError, match=said) as caught:
        make_rows(
            asked_by("zoe", "a"),
            build_context(spec, default_session()),
            seed=0,
            live=LiveUsers({"zoe": user}),
        )
    assert "\n" not in str(caught.value)


def test_a_stranger_without_a_pool_is_refused() -> None:
    live = LiveUsers({"zoe": ZOE})
    rows = make_rows(
        asked_by("zoe", "a"), build_context("stranger:2", default_session()), seed=0, live=live
    )
    with pytest.raises(UsageError, match="drawn from a pool of users, and none is given") as caught:
        rows[0]
    assert "\n" not in str(caught.value)


def test_a_context_is_told_neither_id_nor_gold_nor_choice() -> None:
    class Spy:
        spec, oracle, empty = "spy", False, False

        def __init__(self) -> None:
            self.seen: list[object] = []

        def shown(self, view, user, pool, gold=None):  # type: ignore[no-untyped-def]
            self.seen.append((view, user, gold))
            return build_context("none", default_session()).shown(view, user, pool)

    spy = Spy()
    list(make_rows(TASTING, spy, seed=0))
    for pair, (view, user, gold) in zip(TASTING.pairs, spy.seen, strict=True):  # type: ignore[misc]
        assert gold is None
        assert view[:3] == (pair.text, pair.category, tuple(sorted((pair.chosen, pair.rejected))))
        assert user.posts == pair.profile
        told = repr((view, user))
        assert pair.id not in told
        for text in (pair.gold.narrative, pair.gold.aspects[0].reason):
            assert text and text not in told
    spy.oracle = True  # type: ignore[misc]
    spy.seen.clear()
    make_rows(TASTING, spy, seed=0)[0]
    assert spy.seen[0][2] == TASTING.pairs[0].gold  # type: ignore[index]
