"""The plan in columns is the plan as defined, and groups come out of it as they went in."""

from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from planning import Listed, keys_of, make_plan, plain_plan

from palate.errors import PalateError
from palate.execution import plan as planning
from palate.execution.execute import build
from palate.records import Encoded, Judgement, Message, Part, Prepared, ScorerInfo, Scores, Slate


class AsScorer:
    """Reads all of a slate, or (`deaf`) the responses only."""

    def __init__(self, deaf: bool = False) -> None:
        self.deaf = deaf

    def prepare(self, slate: Slate) -> Prepared:
        return Prepared(slate.replace(question=(), shown=()) if self.deaf else slate)

    def score(self, slates: Sequence[Slate]) -> Iterator[tuple[int, Scores]]:
        raise NotImplementedError


class AsJudge:
    """A judge that is never asked."""

    def judge(self, slates: Sequence[Slate]) -> Iterator[tuple[int, Judgement]]:
        raise NotImplementedError


def slate(question: str, shown: Sequence[str], *candidates: str) -> Slate:
    parts = tuple(Part(kind="post", text=text, rank=k) for k, text in enumerate(shown))
    messages = (Message(role="user", content=question),)
    return Slate(question=messages, shown=parts, candidates=candidates)


words = st.sampled_from(["a", "bb", "ccc", "d" * 90_000, "e", "f", "é"])
slates = st.lists(
    st.tuples(
        st.sampled_from(["q", "r" * 40]), st.lists(words, max_size=2), st.lists(words, max_size=5)
    ).map(lambda of: slate(of[0], of[1], *of[2])),
    max_size=80,
)  # fmt: skip
scorers = st.sampled_from([AsScorer(), AsScorer(deaf=True), AsJudge()])


@given(slates, scorers, st.booleans())
def test_columns_agree_with_the_definition(given_slates, scorer, exact: bool) -> None:  # type: ignore[no-untyped-def]
    info = ScorerInfo(fingerprint="é", exact=exact)
    source = Listed(given_slates)
    plan = make_plan(scorer, info, source)
    name, batches = plain_plan(scorer, info, given_slates)
    assert plan.id == name
    assert np.diff(plan.cuts).tolist() == [len(batch) for batch in batches if batch]
    groups = list(build(scorer, plan, source, range(plan.n_groups)))
    expected = [group for batch in batches for group in batch]
    assert [(read.slate, group.keys) for group, read in groups] == expected
    every = [key for group, _ in groups for key in group.keys]
    assert [plan.keys[k : k + 1].tobytes().hex() for k in range(len(plan.keys))] == [
        key[:32] for key in every
    ]
    for row, one in enumerate(given_slates):
        assert [every[k] for k in plan.of_row(row)] == keys_of(scorer, info, one)
    waiting = plan.rows_by_group()
    assert waiting.sum() == sum(bool(keys_of(scorer, info, one)) for one in given_slates)


@pytest.mark.parametrize(("n", "requests"), [(0, 0), (1, 0), (2, 1), (3, 3), (16, 120)])
def test_a_judge_is_asked_of_every_two_responses(n: int, requests: int) -> None:
    texts = [f"response {k}" for k in range(n)]
    plan = make_plan(AsJudge(), ScorerInfo(fingerprint="x"), Listed([slate("q", (), *texts)]))
    assert (plan.n_groups, len(plan.of_row(0))) == (requests, requests)


@pytest.mark.parametrize("n", [1, 3, 16])
def test_a_scorers_responses_are_one_group(n: int) -> None:
    texts = [f"response {k}" for k in range(n)]
    plan = make_plan(
        AsScorer(), ScorerInfo(fingerprint="x"), Listed([slate("q", (), *texts, texts[0])])
    )
    assert (plan.n_groups, len(plan.keys), len(plan.of_row(0))) == (1, n, n + 1)


def many(n: int) -> list[Slate]:
    return [slate(f"q{k}", (), "a", "b" * (k + 1)) for k in range(n)]


def test_the_plan_knows_nothing_of_row_order() -> None:
    scorer, info = AsScorer(), ScorerInfo(fingerprint="x")
    one = make_plan(scorer, info, Listed(many(80)))
    two = make_plan(scorer, info, Listed(many(80)[::-1]))
    assert one.id == two.id
    assert len(one.cuts) > 2
    assert one.keys.tobytes() == two.keys.tobytes()


def test_slates_of_ordinary_runs_are_built_once(monkeypatch: pytest.MonkeyPatch) -> None:
    source, info = Listed(many(40)), ScorerInfo(fingerprint="x")
    plan = make_plan(AsScorer(), info, source)
    list(build(AsScorer(), plan, source, range(plan.n_groups)))
    assert (source.built, plan.prepared) == (40, {})
    monkeypatch.setattr(planning, "KEPT_BYTES", 50_000)
    plan = make_plan(AsScorer(), info, source)
    assert 0 < len(plan.prepared) < 40
    kept = len(plan.prepared)
    list(build(AsScorer(), plan, source, range(plan.n_groups)))
    assert source.built == 40 + 40 + (40 - kept)


def test_a_context_that_changes_its_mind_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "KEPT_BYTES", 0)
    source = Listed(many(3))
    plan = make_plan(AsScorer(), ScorerInfo(fingerprint="x"), source)
    source.slates = [slate("another", (), *s.candidates) for s in source.slates]
    with pytest.raises(PalateError, match=r"row row \d.*another slate than before"):
        list(build(AsScorer(), plan, source, range(3)))


class Tokenised(AsScorer):
    """Has an input of each response but where the question is short."""

    def prepare(self, slate: Slate) -> Prepared:
        inputs = tuple(Encoded(list(map(ord, text))) for text in slate.candidates)
        return Prepared(slate, inputs=inputs if slate.question[0].content != "q" else ())


@given(slates, st.booleans())
def test_inputs_stay_with_their_responses(given_slates, exact: bool) -> None:  # type: ignore[no-untyped-def]
    info = ScorerInfo(fingerprint="x", exact=exact)
    source = Listed(given_slates)
    plan = make_plan(Tokenised(), info, source)
    for _, read in build(Tokenised(), plan, source, range(plan.n_groups)):
        texts = ["".join(map(chr, it.ids)) for it in read.inputs]
        assert texts == ([] if read.slate.question[0].content == "q" else [*read.slate.candidates])
