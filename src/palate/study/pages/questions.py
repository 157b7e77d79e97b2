"""A question as it stands on a page: which answer is left, what may be chosen, what it means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from palate.records import Part
from palate.study.folder import Study
from palate.study.records import DIMENSIONS, HIGHEST, LOWEST
from palate.study.store import AskedEntry, GivenAnswer

SIDES = ("a", "b")
"""The two answers of a page."""
SCORES = tuple(str(n) for n in range(LOWEST, HIGHEST + 1))


class AskedQuestion(NamedTuple):
    """An item, or one for practice, as a page shows it."""

    asks: str
    """`better`, with ratings; `prefers`; or `own`, of a collection."""
    turns: Sequence[tuple[str, str]]
    posts: Sequence[Part]
    answers: Sequence[str]
    sides: Mapping[str, str] = {}
    """Which side is the item's first answer, and which its second."""
    values: Mapping[str, str] = {}
    """The form of an earlier answer."""
    expected: str = ""
    """Of a practice item: the side that fits better, and why."""
    explanation: str = ""

    def allowed(self, choice: str | None) -> dict[str, tuple[str | None, ...]]:
        """Return the values of every field; who skips may leave out ratings."""
        scores = (None, *SCORES) if choice == "skip" else SCORES
        rated = SIDES if self.asks == "better" else ()
        ratings = {f"{name}_{side}": scores for side in rated for name in DIMENSIONS}
        return {"choice": (*SIDES, "same", "skip"), **ratings}

    def to_answer(self, values: Mapping[str, str], seconds: float | None) -> GivenAnswer:
        """Return what a whole form says of the item's two answers."""
        choice = {side: name for name, side in self.sides.items()}.get(values["choice"])
        rated = DIMENSIONS if self.asks == "better" and values["choice"] != "skip" else ()
        ratings = {n: [int(values[f"{n}_{side}"]) for side in self.sides.values()] for n in rated}
        given = {"choice": choice or values["choice"], "ratings": ratings, "seconds": seconds}
        return GivenAnswer.model_validate(given)


def question_of(place: AskedEntry | None, mode: str) -> AskedQuestion | None:
    """Return a place of a rater's list as a page shows it; None past its end, or forgotten."""
    if place is None or (item := place.item) is None:
        return None
    step = -1 if place.entry.swapped else 1
    sides = dict(zip(("first", "second"), SIDES[::step], strict=True))
    values: dict[str, str] = {}
    if given := place.given:
        values["choice"] = sides.get(given.choice, given.choice)
        for name, both in given.ratings.items():
            values |= {f"{name}_{s}": str(n) for s, n in zip(sides.values(), both, strict=True)}
    asks = item.asks if mode == "judge" else "own"
    turns = [(message.role, message.content) for message in item.question]
    return AskedQuestion(asks, turns, item.shown, item.answers[::step], sides, values)


def practice_of(study: Study) -> list[AskedQuestion]:
    """Return two items for practice, of the kinds that are asked; none of a collection."""
    words, listed = study.plan.texts, []
    kinds = {item.asks for item in study.items.values() if study.plan.mode == "judge"}
    for name, kind in (("practice_1", "better"), ("practice_2", "prefers")) if kinds else ():
        asks = kind if kind in kinds else min(kinds)
        posts = [Part(kind="post", text=words[f"{name}_post"])] if asks == "prefers" else []
        answers = [words[f"{name}_{side}"] for side in SIDES]
        turns, why = [("user", words[f"{name}_question"])], words[f"{name}_explanation"]
        side = words[f"{name}_expected"]
        listed.append(AskedQuestion(asks, turns, posts, answers, expected=side, explanation=why))
    return listed
