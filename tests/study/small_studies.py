"""Studies of a few invented items, planned by hand."""

from __future__ import annotations

from pathlib import Path

from palate.records import Message, Part, Slate
from palate.study import GoldRow, ListEntry, Study, StudyItem, StudyPlan, Trait
from palate.study.database import AskedEntry, RaterState
from palate.study.store import StudyStore

RATINGS = {"correctness": (5, 4), "relevance": (3, 3), "helpfulness": (1, 5)}
"""Ratings that a rater may give where nothing is shown."""
TRAITS = (
    Trait(name="age", question="How old are you?", options=("under 30", "30 or older")),
    Trait(name="tea", question="Do you drink tea?", options=("yes", "no", "rather not say")),
)


def small_item(n: int, *, shown: bool = False, **more: object) -> StudyItem:
    """Return an item of its own question and answers."""
    question = (Message(role="user", content=f"Question {n}?"),)
    posts = (Part(kind="post", text=f"A post about {n}."),) if shown else ()
    candidates = (f"Answer {n} is long.", f"Brief {n}.")
    more = {"category": f"topic {n % 2}", "users": (f"key{n}",), **more}
    return StudyItem.of(Slate(question=question, shown=posts, candidates=candidates), **more)


def small_study(
    folder: Path,
    *,
    raters: int = 3,
    items: int = 4,
    checks: int = 2,
    shown: bool = False,
    mode: str = "judge",
    per_rater: int | None = None,
    most_failed_checks: int = 1,
    users: tuple[str, ...] = (),
) -> Study:
    """Return a written study in which every rater is asked every item, then every check.

    Of each pair the first answer is the chosen one; the check's first answer is expected. The keys
    `users` are those of the first items.
    """
    pairs = [
        small_item(n, shown=shown, **({"users": (users[n],)} if n < len(users) else {}))
        for n in range(items)
    ]
    tests = [small_item(items + n, kind="check", expected="first") for n in range(checks)]
    both = [*pairs, *tests]
    gold = tuple(
        GoldRow(
            item=item.id,
            context="profile:5" if shown else "none",
            row=f"row{n}",
            chosen="first",
            user=item.users[0],
        )
        for n, item in enumerate(pairs)
    )
    lists = tuple(
        tuple(ListEntry(item=item.id, swapped=(n + k) % 2 == 1) for n, item in enumerate(both))
        for k in range(raters if mode == "judge" else 1)
    )
    plan = StudyPlan(
        mode="collect" if mode == "collect" else "judge",
        benchmark="invented",
        content_hash="0" * 32,
        contexts=("profile:5",) if shown else ("none",),
        seed=0,
        raters=raters,
        per_pair=raters,
        margin=0.25,
        most_failed_checks=most_failed_checks,
        items={item.id: item.hash for item in both},
        gold=tuple(sorted(row.hash for row in gold)),
        checks=tuple(item.id for item in tests),
        lists=lists,
        consent="# You decide\n\nYou may stop at any time.",
        texts={},
        traits=TRAITS,
        per_rater=per_rater,
    )
    study = Study(folder, plan, {item.id: item for item in both}, gold)
    study.write()
    return study


def state_of(store: StudyStore, arrival: str) -> RaterState:
    """Return where who arrived under an id stands."""
    token = store.arrive(arrival)
    state = None if token is None else store.rater(token)
    assert state is not None
    return state


def seated(store: StudyStore, arrival: str) -> str:
    """Return who arrived under an id, once they consented."""
    rater = state_of(store, arrival).rater
    store.consent(rater)
    return rater


def asked_at(store: StudyStore, rater: str, position: int) -> AskedEntry:
    """Return what a rater is asked at a position."""
    asked = store.entry(rater, position)
    assert asked is not None
    return asked
