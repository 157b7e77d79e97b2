"""Collections of invented questions, and raters who are asked through the chooser."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from palate.benchmarks import Dataset
from palate.study import AnswerRow, ListEntry, Study, StudyItem
from palate.study.collecting import CollectOptions, plan_collection

Asked = list[tuple[ListEntry, Any]]


def questions(n: int, *, responses: int = 2, topics: int = 3, **more: Any) -> Dataset:
    """Return n questions, each with responses of different lengths."""
    return Dataset.from_rows("questions", [
        {"id": f"q{k}", "question": f"Question {k}?", "category": f"topic {k % topics}",
         "responses": [f"Answer {k} " + "so " * (j + 1) + "it is." for j in range(responses)],
         **more}
        for k in range(n)
    ])  # fmt: skip


def collection(
    dataset: Dataset | None = None, folder: Path = Path("study"), **options: Any
) -> Study:
    """Return a planned collection of 80 questions, of which 4 raters get 30 each."""
    dataset = questions(80) if dataset is None else dataset
    return plan_collection(dataset, CollectOptions(**{"raters": 4, **options}), folder)


def given(choice: str) -> Any:
    """Return an answer as the store hands it to the chooser."""
    return SimpleNamespace(choice=choice)


def sit_through(
    chooser: Any, rater: str, study: Study, answer: Callable[[StudyItem], str]
) -> Asked:
    """Return all that a rater is asked, with answers."""
    asked: Asked = []
    while (entry := chooser(rater, asked)) is not None:
        asked.append((entry, given(answer(study.items[entry.item]))))
    return asked


def answer_rows(
    rater: str, asked: Asked, study: Study, date: str = "2026-11-01T10:00:00Z", **more: Any
) -> list[AnswerRow]:
    """Return a rater's answers as the lines of an export."""
    return [
        AnswerRow(
            rater=rater,
            item=entry.item,
            pair=study.items[entry.item].pair,
            asks=study.items[entry.item].asks,
            again=entry.again,
            responses=study.responses_of[entry.item],
            left="second" if entry.swapped else "first",
            choice=answered.choice,
            date=date,
            category=study.items[entry.item].category,
            **more,
        )
        for entry, answered in asked
    ]
