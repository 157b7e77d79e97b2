"""Rows of the contract, which `palate adapt` and `palate evaluate` read, made of answers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from palate.data import choice_row
from palate.errors import RunError
from palate.study.folder import Study
from palate.study.records import AnswerRow


def contract_rows(study: Study, answers: Iterable[AnswerRow]) -> Iterator[dict[str, Any]]:
    """Yield a row for each choice of a collection; a tie where no difference was seen.

    What is skipped, asked again, or forgotten makes no row: a vote counts once. A user is named
    after the plan too, so that the raters of two rounds are never taken for one. Raises `RunError`
    for a study that is no collection, and for an answer of another.
    """
    plan, items = study.plan, study.items
    if plan.mode != "collect":
        raise RunError(f"{study.folder}: no collection, so its answers are not users' own choices")
    tested, responses = {entry.item for entry in plan.lists[0]}, defaultdict[object, set[str]](set)
    for item in items.values():
        responses[item.question].update(item.answers)
    for answer in answers:
        if answer.item not in plan.items:
            raise RunError(f"{study.folder}: item {answer.item} of {answer.rater} is not planned")
        if answer.again or answer.choice == "skip" or answer.item not in items:
            continue
        item = items[answer.item]
        *turns, last = item.question
        user = f"{plan.hash[:8]}-{answer.rater}"
        yield choice_row(
            user,
            last.content,
            *(item.answers[::-1] if answer.choice == "second" else item.answers),
            split="test" if item.id in tested else "adapt",
            date=answer.date,
            id=f"{user}-{item.id}",
            turns=turns,
            category=item.category,
            traits=answer.traits,
            responses=sorted(responses[item.question]),
            tie=answer.choice == "same",
        )
