"""Checks: an answer to a question against an answer to another one."""

from __future__ import annotations

from collections.abc import Sequence

from palate.errors import UsageError
from palate.records import Slate, normal_form
from palate.seeding import digest, shuffled
from palate.study.records import StudyItem

TRIES = 20


def make_checks(items: Sequence[StudyItem], n: int, per_rater: int, seed: int) -> list[StudyItem]:
    """Return at most n checks, drawn without a look at what anybody chose.

    They are rated where any item is, and else hold the posts of the item that they are made of.
    The other question is of another category where there is one.

    Raises `UsageError` where there are fewer than each rater gets.
    """
    of_question: dict[str, list[StudyItem]] = {}
    for item in [item for item in items if item.asks == "better"] or items:
        question = [(message.role, normal_form(message.content)) for message in item.question]
        of_question.setdefault(digest(question), []).append(item)
    if per_rater and len(of_question) < 2:
        raise UsageError(
            "one question only, so no checks; --checks 0 asks without, and shows no equivalence"
        )
    order = shuffled(sorted(of_question), "checked questions", seed)
    checks: dict[str, StudyItem] = {}
    for k in range(TRIES * max(n, len(order)) if n else 0):
        name = order[k % len(order)]
        base = shuffled(of_question[name], "check of", seed, k)[0]
        apart = [other for other in order if of_question[other][0].category != base.category]
        others = apart or [other for other in order if other != name]
        strange = shuffled(of_question[shuffled(others, "by", seed, k)[0]], "with", seed, k)[0]
        right = shuffled(base.answers, "right", seed, k)[0]
        wrong = shuffled(strange.answers, "wrong", seed, k)[0]
        known = (answer for item in of_question[name] for answer in item.answers)
        if normal_form(wrong) in map(normal_form, known):
            continue
        check = StudyItem.of(
            Slate(question=base.question, shown=base.shown, candidates=(right, wrong)),
            kind="check",
            category=base.category,
            expected="first" if right < wrong else "second",
            users=sorted({*base.users, *strange.users}),
        )
        checks.setdefault(check.pair, check)
        if len(checks) == n:
            break
    if len(checks) < per_rater:
        raise UsageError(f"--checks {per_rater}: only {len(checks)} can be made of these questions")
    return sorted(checks.values(), key=lambda check: check.id)
