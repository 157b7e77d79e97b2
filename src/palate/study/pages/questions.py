"""What is asked on a page: an item, a practice item, the questionnaire."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from palate.study.folder import Study
from palate.study.pages.forms import PostedFields, RadioGroup
from palate.study.pages.markdown import rendered
from palate.study.pages.rendering import fill
from palate.study.records import DIMENSIONS, HIGHEST, LOWEST
from palate.study.store import AskedEntry, GivenAnswer

SIDES = ("a", "b")
"""As the two answers stand on the page."""


class AskedQuestion(NamedTuple):
    """A question, what is shown with it, two answers, and the form under them."""

    asks: str
    turns: Sequence[tuple[str, str]]
    posts: Sequence[str]
    answers: Sequence[str]
    choice: RadioGroup
    ratings: Mapping[str, RadioGroup] = {}

    def problems(self, fields: PostedFields, unknown: str, *more: str) -> dict[str, str]:
        """Return what is missing or wrong; who skips rates nothing."""
        skips = fields.values.get("choice") == "skip"
        groups = [self.choice, *(() if skips else self.ratings.values())]
        return fields.problems(groups, unknown, *more, *self.ratings)

    def parts(self, words: Mapping[str, str]) -> dict[str, Any]:
        """Return the values of its template."""
        columns = [
            (side.upper(), [self.ratings[f"{name}_{side}"] for name in DIMENSIONS])
            for side in SIDES
            if self.ratings
        ]
        return {
            "hint": words[f"{self.asks}_hint"],
            "turns": [(role, rendered(text)) for role, text in self.turns],
            "posts": [rendered(text) for text in self.posts],
            "answers": [
                (side.upper(), rendered(text))
                for side, text in zip(SIDES, self.answers, strict=True)
            ],
            "choice": self.choice,
            "ratings": columns,
        }


class QuestionWriter:
    """Puts a study's questions into its words."""

    def __init__(self, study: Study) -> None:
        self.words, self.plan = study.plan.texts, study.plan
        self._asks = {item.asks for item in study.items.values()} or {"better"}

    def of_entry(self, asked: AskedEntry) -> AskedQuestion:
        """Return what a rater is asked at one place of the list."""
        item = asked.item
        assert item is not None, "a forgotten item is asked of nobody"
        asks = "own" if self.plan.mode == "collect" else item.asks
        return self._question(
            asks,
            [(message.role, message.content) for message in item.question],
            [part.text for part in item.shown],
            item.answers[::-1] if asked.entry.swapped else item.answers,
        )

    def practice(self) -> Sequence[tuple[AskedQuestion, str, str]]:
        """Return practice items, each with what is expected and why, of the kinds that are asked.

        A collection has none: who chooses for themselves is never wrong.
        """
        if self.plan.mode == "collect":
            return ()
        words, listed = self.words, []
        for n, kind in ((1, "better"), (2, "prefers")):
            asks = kind if kind in self._asks else min(self._asks)
            name = f"practice_{n}"
            posts = [words[f"{name}_post"]] if asks == "prefers" else []
            question = self._question(
                asks,
                [("user", words[f"{name}_question"])],
                posts,
                [words[f"{name}_{side}"] for side in SIDES],
            )
            listed.append((question, words[f"{name}_expected"], words[f"{name}_explanation"]))
        return listed

    def traits(self) -> list[RadioGroup]:
        """Return the questionnaire."""
        return [
            RadioGroup(
                f"trait-{k}",
                trait.question,
                {str(n): option for n, option in enumerate(trait.options)},
                f"{self.words['about_missing']}: {trait.question}",
            )
            for k, trait in enumerate(self.plan.traits)
        ]

    def _question(
        self,
        asks: str,
        turns: Sequence[tuple[str, str]],
        posts: Sequence[str],
        answers: Sequence[str],
    ) -> AskedQuestion:
        words = self.words
        options = {side: words[f"{asks}_{side}"] for side in SIDES}
        options |= {name: words[name] for name in ("same", "skip")}
        choice = RadioGroup("choice", words["choice"], options, words["choice_missing"])
        ratings = {g.name: g for g in self._ratings()} if asks == "better" else {}
        return AskedQuestion(asks, turns, posts, answers, choice, ratings)

    def _ratings(self) -> Iterable[RadioGroup]:
        scores = {str(n): str(n) for n in range(LOWEST, HIGHEST + 1)}
        for side in SIDES:
            for name in DIMENSIONS:
                legend, hint = self.words[name], self.words[f"{name}_hint"]
                missing = fill(self.words["rating_missing"], dimension=legend, answer=side.upper())
                yield RadioGroup(f"{name}_{side}", legend, scores, missing, hint, scale=True)


def to_answer(
    question: AskedQuestion, fields: PostedFields, swapped: bool, seconds: float | None
) -> GivenAnswer:
    """Return the answer that a whole form gives; sides of the page become those of the item."""
    first, second = reversed(SIDES) if swapped else SIDES
    values = fields.values
    choice = {first: "first", second: "second"}.get(values["choice"], values["choice"])
    ratings = {
        name: (int(values[f"{name}_{first}"]), int(values[f"{name}_{second}"]))
        for name in DIMENSIONS
        if question.ratings and choice != "skip"
    }
    return GivenAnswer.model_validate({"choice": choice, "ratings": ratings, "seconds": seconds})


def to_fields(given: GivenAnswer | None, swapped: bool) -> dict[str, str]:
    """Return the form of an earlier answer: what `to_answer` made it of."""
    if given is None:
        return {}
    first, second = reversed(SIDES) if swapped else SIDES
    sides = {"first": first, "second": second}
    values = {"choice": sides.get(given.choice, given.choice)}
    for name, (of_first, of_second) in given.ratings.items():
        values |= {f"{name}_{first}": str(of_first), f"{name}_{second}": str(of_second)}
    return values
