"""Any number of responses a row: computed once each, journalled, and read back by row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path

import pytest

from palate.benchmarks import Dataset
from palate.contexts import build_context
from palate.evaluation import Computation, Work, make_rows
from palate.records import Judgement, Question, ScorerInfo, Scores, Slate
from palate.runs import Journal, located_lines
from palate.seeding import unit
from palate.session import default_session

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
