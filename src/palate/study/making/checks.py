"""Checks: an answer to a question against an answer to another one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from numpy.random import Generator

from palate.errors import UsageError
from palate.records import Slate, normal_form
from palate.seeding import digest, rng, shuffled
from palate.study.records import StudyItem

T = TypeVar("T")
TRIES = 20


def make_checks(items: Sequence[StudyItem], n: int, each: int, seed: int) -> list[StudyItem]:
    """Return at most n checks, drawn without a look at what anybody chose.

    They are rated where any item is, and else hold the posts of the item that they are made of.
    The other question is of another category where there is one.

    Raises `UsageError` where there are fewer than `each` rater gets.
    """
    of_question: dict[str, list[StudyItem]] = {}
    for item in [item for item in items if item.asks == "better"] or items:
        question = [(message.role, normal_form(message.content)) for message in item.question]
        of_question.setdefault(digest(question), []).append(item)
    if each and len(of_question) < 2:
        raise UsageError(
            "one question only, so no checks; --checks 0 asks without, and shows no equivalence"
        )
    generator = rng("study checks", seed)
    order = shuffled(sorted(of_question), "checked questions", seed)
    made: dict[str, StudyItem] = {}
    for k in range(TRIES * max(n, len(order))):
        if len(made) >= n:
            break
        name = order[k % len(order)]
        base = _drawn(of_question[name], generator)
        others = [other for other in order if other != name]
        apart = [other for other in others if of_question[other][0].category != base.category]
        strange = _drawn(of_question[_drawn(apart or others, generator)], generator)
        right, wrong = _drawn(base.answers, generator), _drawn(strange.answers, generator)
        known = (answer for item in of_question[name] for answer in item.answers)
        if normal_form(wrong) not in map(normal_form, known):
            check = StudyItem.of(
                Slate(question=base.question, shown=base.shown, candidates=(right, wrong)),
                kind="check",
                category=base.category,
                expected="first" if right < wrong else "second",
                users=sorted({*base.users, *strange.users}),
            )
            made.setdefault(check.pair, check)
    if len(made) < each:
        raise UsageError(f"--checks {each}: only {len(made)} can be made of these questions")
    return sorted(made.values(), key=lambda check: check.id)


def _drawn(things: Sequence[T], generator: Generator) -> T:
    return things[int(generator.integers(len(things)))]
