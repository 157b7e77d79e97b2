"""Rows of any kind: questions alone, any number of responses, users given in the call."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pairs import rows_of
from palate.benchmarks import Dataset, load_benchmark
from palate.comparison import evaluate
from palate.contexts import build_context
from palate.errors import BenchmarkError, UsageError
from palate.evaluation import Computation, LiveUsers, Work, make_rows
from palate.records import (
    Choice,
    Judgement,
    Post,
    Question,
    ScorerInfo,
    Scores,
    Slate,
    User,
    UserPool,
)
from palate.runs import Journal, located_lines
from palate.seeding import unit
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
    rows = rows_of(asked_by("ann", *responses), "none")
    assert sorted(rows[0].slate.candidates) == sorted(responses)
    turned = rows_of(asked_by("ann", *responses[::-1]), "none")
    assert turned[0].slate == rows[0].slate, "the order of the data says nothing"


@given(st.lists(st.text(min_size=1, max_size=3), min_size=2, max_size=6, unique=True), st.data())
def test_two_users_rows_see_responses_in_one_order(texts: list[str], data: st.DataObject) -> None:
    shuffled = data.draw(st.permutations(texts))
    ours = rows_of(asked_by("ann", *texts), "none", seed=3)
    theirs = rows_of(asked_by("bob", *shuffled), "none", seed=3)
    assert ours[0].slate == theirs[0].slate


@pytest.mark.parametrize("n", [0, 1, 2, 3])
def test_evaluate_refuses_questions_in_one_line(n: int) -> None:
    with pytest.raises(BenchmarkError, match=r"asked: row 'q-ann' has no `chosen`") as caught:
        evaluate(asked_by("ann", *"abc"[:n]), "longest", "none", root=None)
    assert "\n" not in str(caught.value)


def test_past_choices_are_pairs() -> None:
    rows = [*TASTING.pairs[:2], Question(id="x", user_id="ann", text="?", split="adapt")]
    some = Dataset("some", tuple(row.model_copy(update={"split": row.split or "test"})
                                 for row in rows))  # fmt: skip
    with pytest.raises(BenchmarkError, match="some, past choices: row 'x' has no `chosen`"):
        some.select()


def test_a_live_user_is_shown_what_the_call_gives() -> None:
    live = LiveUsers({"zoe": ZOE}, pool_of("ann", "bob"))
    rows = rows_of(asked_by("zoe", "Assam."), "profile:1", live=live)
    assert [part.text for part in rows[0].slate.shown] == ["I drink strong tea."]
    rows = rows_of(asked_by("zoe", "Assam."), "examples:1", live=live)
    assert "Tea or milk?" in rows[0].slate.shown[0].text


def test_a_live_users_stranger_is_of_the_pool_and_never_themselves() -> None:
    live = LiveUsers({"zoe": ZOE}, pool_of("ann", "bob", "zoe"))
    drawn = Counter()
    for k in range(40):
        data = asked_by("zoe", "Assam.")
        data = replace(data, rows=(data.rows[0].model_copy(update={"id": f"q{k}"}),))
        (part,) = rows_of(data, "stranger:2", live=live)[0].slate.shown
        drawn[part.text.split()[0]] += 1
    assert set(drawn) == {"ann", "bob"}
    assert min(drawn.values()) > 8


def test_a_live_user_is_nobodys_stranger() -> None:
    name = TASTING.pairs[0].user_id
    live = LiveUsers({name: User(id=name, posts=POSTS)})
    rows = rows_of(TASTING, "stranger:3", live=live)
    theirs = {post.text for pair in TASTING.pairs if pair.user_id == name for post in pair.profile}
    for k, row in enumerate(rows):
        shown = " ".join(part.text for part in row.slate.shown)
        assert not any(text[:40] in shown for text in theirs), k
        assert not any(post.text in shown for post in POSTS), k
    others = rows_of(TASTING, "stranger:3")
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
        rows_of(asked_by("zoe", "a"), spec, live=LiveUsers({"zoe": user}))
    assert "\n" not in str(caught.value)


def test_a_stranger_without_a_pool_is_refused() -> None:
    live = LiveUsers({"zoe": ZOE})
    rows = rows_of(asked_by("zoe", "a"), "stranger:2", live=live)
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
    list(rows_of(TASTING, spy))
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
    rows_of(TASTING, spy)[0]
    assert spy.seen[0][2] == TASTING.pairs[0].gold  # type: ignore[index]


SIZES = (0, 1, 2, 3, 16)


class ByText:
    """A score of question and response; counts what it is asked for."""

    def __init__(self, exact: bool = False) -> None:
        self.info = ScorerInfo(fingerprint=f"by text {exact}", exact=exact)
        self.asked: list[tuple[str, str]] = []

    def score(self, slates: Sequence[Slate]) -> Iterator[tuple[int, Scores]]:
        for k, slate in enumerate(slates):
            question = slate.question[0].content
            self.asked += [(question, text) for text in slate.candidates]
            yield k, Scores(values=tuple(unit(question, text) for text in slate.candidates))


class Compares:
    """A judge by the same numbers, in two orders."""

    info = ScorerInfo(fingerprint="compares", pairs_only=True)

    def __init__(self) -> None:
        self.asked: list[tuple[str, ...]] = []

    def judge(self, slates: Sequence[Slate]) -> Iterator[tuple[int, Judgement]]:
        for k, slate in enumerate(slates):
            self.asked.append(slate.candidates)
            question = slate.question[0].content
            first, second = (unit(question, text) for text in slate.candidates)
            yield k, Judgement(margin=first - second, orders=(first - second,) * 2)


def questions() -> Dataset:
    """Rows of every size, those of two users who were asked the same among them."""
    return Dataset("asked", tuple(
        Question(id=f"{user}-{n}", user_id=user, text=f"Which of {n}?",
                 responses=tuple(f"response {k}" for k in range(n)))
        for user in ("ann", "bob") for n in SIZES
    ))  # fmt: skip


def computed(scorer, root: Path | None = None):  # type: ignore[no-untyped-def]
    rows = make_rows(questions(), build_context("none", default_session()), seed=0)
    work = Computation(scorer, "scripted", rows, Work.of())
    if root is None:
        return rows, work.run(None, None, lambda done, total: None)[0]
    with Journal(root / "journal.jsonl") as journal:
        (found,) = work.run(journal, root, lambda done, total: None)
    return rows, found


@pytest.mark.parametrize("exact", [True, False])
def test_a_scorer_scores_every_response_once(exact: bool) -> None:
    scorer = ByText(exact)
    rows, found = computed(scorer)
    assert len(scorer.asked) == len(set(scorer.asked)) == sum(SIZES)
    for row, question in enumerate(questions().rows):
        expected = tuple(unit(question.text, text) for text in rows.candidates(row))
        assert found.scores(row).values == expected


def test_a_judge_compares_every_two_once() -> None:
    judge = Compares()
    rows, found = computed(judge)
    assert len(judge.asked) == sum(n * (n - 1) // 2 for n in SIZES)
    for row, question in enumerate(questions().rows):
        both = list(combinations(rows.candidates(row), 2))
        margins = [judgement.margin for judgement in found.judgements(row)]
        assert margins == [unit(question.text, a) - unit(question.text, b) for a, b in both]


@pytest.mark.parametrize("made", [ByText, lambda: ByText(exact=True), Compares])
def test_what_is_journalled_is_not_computed_again(made, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    first, again = made(), made()
    rows, found = computed(first, tmp_path)
    before = (tmp_path / "journal.jsonl").read_bytes()
    assert {line.id for _, line in located_lines(tmp_path / "journal.jsonl")} <= {
        row.id for row in questions().rows
    }
    _, recalled = computed(again, tmp_path)
    assert again.asked == []
    assert (tmp_path / "journal.jsonl").read_bytes() == before
    for row in range(len(rows)):
        read = "judgements" if isinstance(first, Compares) else "scores"
        assert getattr(found, read)(row) == getattr(recalled, read)(row)
