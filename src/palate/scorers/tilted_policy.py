"""A policy tilted by a reward, read as a scorer of responses: log p(y | x) + w R(y)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np

from palate.errors import ModelError, SpecError
from palate.metrics.policy import READINGS, PolicyScores, Reading, ranked
from palate.prompts import prompt_hash, render
from palate.records import (
    Choice,
    Component,
    Encoded,
    Message,
    Prepared,
    Scorer,
    ScorerInfo,
    Scores,
    Settings,
    Slate,
    components_of,
    info_of,
    prepare,
    results_of,
)
from palate.scorers.endpoint_text import EndpointText, model_spec, text_of
from palate.scorers.likelihood import Likelihood, ScaledDifference
from palate.seeding import digest
from palate.session import Session
from palate.specs import Spec

if TYPE_CHECKING:
    import torch


class SteeredPolicy:
    """The KL-optimal policy of a reward: log p(y | x) + w R(y), less a constant of the question.

    `?guide=SPEC` is the reward, any scorer; without one it is what the policy makes of what it is
    shown, as in-context, persona and fine-tuned policies do. `?weight=` is w, `?read=` the sum, the
    mean per token or the ratio to the policy alone. The policy reads nothing of the user unless
    `?shown=yes`. All weights and readings rest on the same passes.
    """

    scale_pairs = 20
    """Pairs that a user's confidence is measured on: each costs a reading of the policy."""

    def __init__(self, spec: Spec, guide: Scorer, base: Component) -> None:
        self.spec, self.guide, self.base = spec, guide, base
        self.weights = self.read_weights(spec)
        self.weight = self.weights[0]
        self.reading = cast(Reading, spec.choice("read", READINGS, "sum"))
        # The guide's first: what is said of the parts that were read is said of them.
        every = (*components_of(guide), *self.further_components())
        self.components = tuple(dict.fromkeys(every))

    def read_weights(self, spec: Spec) -> tuple[float, ...]:
        """Return the weight of the spec."""
        where = f"spec {str(spec)!r}: weight"
        return (read_weight(spec.options.get("weight", "1"), where, least=0),)

    def further_components(self) -> tuple[Component, ...]:
        """Return what is computed beside the guide."""
        self.count = Component(TokenCount(self.start), without_context=True)
        return self.base, self.count

    @property
    def start(self) -> PolicyLikelihood:
        """The policy, or what a policy without a guide is compared with."""
        assert isinstance(self.base.scorer, PolicyLikelihood)
        return self.base.scorer

    @property
    def guide_spec(self) -> str:
        """The guide's own spec; of a policy without one its own."""
        if "guide" not in self.spec.options:
            return str(self.spec)
        canonical = getattr(self.guide, "canonical", None)
        return canonical if isinstance(canonical, str) else str(guide_of(self.spec))

    @property
    def canonical(self) -> str:
        """The spec, with the guide's own spelling in it."""
        guided = "guide" in self.spec.options
        return str(self.spec.having(guide=self.guide_spec, state=None) if guided else self.spec)

    @property
    def info(self) -> ScorerInfo:
        """What the numbers depend on: those of guide and policy, the weight and the reading."""
        guide = info_of(self.guide, str(self.spec))
        prints = [guide.fingerprint]
        for scorer, without_context in self.components:
            prints += [info_of(scorer, str(self.spec)).fingerprint, str(without_context)]
        changed = {
            "fingerprint": digest("policy", *prints, str(self.weight), self.reading),
            "details": {"policy": self.start.info.details, "guide": guide.details},
        }
        return guide.model_copy(update={**changed, "exact": False, "log_odds": False})

    def reward(self, parts: Mapping[Component, Scores]) -> Scores:
        """Return the guide's scores, from what the components gave."""
        of_guide = [parts[part] for part in components_of(self.guide)]
        combine = getattr(self.guide, "combine", None)
        return combine(of_guide) if combine is not None else of_guide[0]

    def scores_of(self, parts: Sequence[Scores]) -> tuple[PolicyScores, tuple[str | None, ...]]:
        """Return what is known of a slate's responses, and why each is unscored that is."""
        by = dict(zip(self.components, parts, strict=True))
        reward = self.reward(by)
        every = (reward, *by.values())
        reasons = [
            next((r for part in every if (r := part.reason(k))), None) if None in column else None
            for k, column in enumerate(zip(*(part.values for part in every), strict=True))
        ]
        return self.policy_scores(numbers(reward), by), tuple(reasons)

    def policy_scores(self, reward: np.ndarray, parts: Mapping[Component, Scores]) -> PolicyScores:
        """Return the scores at all weights."""
        return PolicyScores.tilt(numbers(parts[self.base]), reward, numbers(parts[self.count]))

    def combine(self, parts: Sequence[Scores]) -> Scores:
        """Return the scores at the weight and reading of the spec."""
        scores, reasons = self.scores_of(parts)
        order = ranked(scores, self.weight, self.reading)
        values = [None if math.isnan(value) else value for value in order.tolist()]
        return Scores.of(values, reasons)

    def score(self, slates: Sequence[Slate]) -> Iterator[tuple[int, Scores]]:
        """Yield scores; every component goes through all slates."""
        parts: list[dict[int, Scores]] = []
        complete = [True] * len(slates)
        for scorer, without_context in self.components:
            asked = [slate.without_context() for slate in slates] if without_context else slates
            read = [prepare(scorer, slate) for slate in asked]
            if not parts:
                complete = [bool(prepared.slate.shown) for prepared in read]
            parts.append(dict(results_of(scorer, read)))  # type: ignore[arg-type]
        for k, slate in enumerate(slates):
            if self.info.needs_shown and not complete[k]:
                yield k, Scores.unscored(len(slate.candidates), "nothing shown")
            else:
                yield k, self.combine([part[k] for part in parts])

    def prompts(self, slate: Slate) -> list[str]:
        """Return what the guide reads, and what the policy does."""
        guided: list[str] = getattr(self.guide, "prompts", lambda slate: [])(slate)
        bare = slate.without_context() if self.base.without_context else slate
        return guided + self.start.prompts(bare)

    def notes(self) -> tuple[str, ...]:
        """Return what guide and policy note."""
        of_guide: tuple[str, ...] = getattr(self.guide, "notes", tuple)()
        return tuple(dict.fromkeys((*of_guide, *self.start.notes())))


class StatefulPolicy(SteeredPolicy):
    """A policy whose guide keeps a state per user."""

    guide: Any

    def __init__(self, spec: Spec, guide: Any, base: Component) -> None:
        super().__init__(spec, guide, base)
        self.state: str = guide.state
        self.wants_choices: bool = guide.wants_choices
        self.known: Sequence[str] = guide.known
        self.draws: int = getattr(guide, "draws", 1)
        """How many third users' states score a row."""

    def adapted(self, history: Mapping[str, Sequence[Choice]]) -> Self:
        """Return this policy with a guide that has a state for each user."""
        return type(self)(self.spec, self.guide.adapted(history), self.base)

    def join(self, choices: Mapping[str, Sequence[Choice]]) -> Self:
        """Return this policy with a guide that knows these users too."""
        return type(self)(self.spec, self.guide.join(choices), self.base)


class OwnRatio(ScaledDifference):
    """log p(y | shown, x) − log p_base(y | x): what a policy says by itself of being shown."""

    beta = 1.0

    def __init__(self, shown: PolicyLikelihood, base: PolicyLikelihood) -> None:
        self.models = (shown, base)
        self.components = (Component(shown), Component(base, without_context=True))
        self.info = shown.info


def guide_of(spec: Spec) -> Spec:
    """Return the guide's spec, with the state that is asked for."""
    named = Spec.parse(spec.options["guide"])
    return named.having(state=spec.options["state"]) if "state" in spec.options else named


def read_weight(text: str, where: str, least: float = -math.inf) -> float:
    """Return a weight, `inf` the limit; raises `SpecError` for NaN and for one below `least`."""
    try:
        weight = float(text)
    except ValueError:
        weight = math.nan
    if math.isnan(weight) or weight < least or weight == -math.inf:
        allowed = "0 or more" if least == 0 else "a number"
        raise SpecError(f"{where} {text!r}: expected {allowed}, or inf")
    return weight + 0.0


def numbers(scores: Scores) -> np.ndarray:
    """Return the values of scores, NaN where there is none."""
    return np.array([math.nan if v is None else v for v in scores.values], np.float64)


class PolicyLikelihood(Likelihood):
    """log p(y | x), where y is the response and its first end token.

    What a template writes behind the end token, such as a line break, is never drawn and is left
    out. No user has a part in it beyond what is shown.
    """

    def __init__(self, reference: str, session: Session, settings: Settings) -> None:
        self.local = text_of(model_spec("likelihood", reference), session, settings)
        what = "sum log p(response, first end token)"
        if isinstance(self.local, EndpointText):  # whose ends are no part of the tokenizer's files
            what = f"{what} of {sorted(self.local.reader.ends)}"
        elif more := self.local.reader.end_details:
            what = f"{what} also of {more['ends']}"
        self.info = self.local.info(what, prompt_hash("about.jinja"))

    def prepare(self, slate: Slate, dropped: int | None = None) -> Prepared:
        """Cut what is shown to the windows; the slate is nobody's."""
        return super().prepare(slate.replace(user=None, excluded=()), dropped)

    def value(self, logp: torch.Tensor) -> float:
        """Return the sum over the tokens."""
        return float(logp.double().sum())

    def encoded(self, slate: Slate) -> list[Encoded]:
        """Return, per candidate, the token ids of prompt and response, and where it starts."""
        messages = render(slate.question, slate.shown)
        return [self._drawn(messages, text) for text in slate.candidates]

    def _drawn(self, messages: tuple[Message, ...], text: str) -> Encoded:
        template, ends = self.local.template, self.local.reader.ends
        ids, start = template.closed(messages, text)
        stop = next((k for k in range(start, len(ids)) if ids[k] in ends), None)
        if stop is None:  # the template ends a turn otherwise, the policy by a token alone
            if not ends:
                raise ModelError(f"{self.local.reference}: no token is known to end a reply")
            ids, start = template.continuation(messages, text)
            ids, stop = (*ids, min(ends)), len(ids)
        prompt = template.answer_prompt(messages)
        if tuple(ids[:start]) == prompt:
            return Encoded(ids[: stop + 1], start)
        # A token across the seam is never drawn after this prompt.
        alone = template.tokenizer(template.safe(text), add_special_tokens=False)["input_ids"]
        return Encoded((*prompt, *alone, ids[stop]), len(prompt))


class TokenCount:
    """How many tokens a policy draws to write a response, the end token included."""

    def __init__(self, policy: PolicyLikelihood) -> None:
        self.policy = policy
        content = policy.local.reader.content
        self.info = ScorerInfo(fingerprint=digest("tokens of a response", content), exact=True)

    def prepare(self, slate: Slate) -> Prepared:
        """Read responses with nothing shown of anybody."""
        return Prepared(slate.without_context().replace(user=None, excluded=()))

    def score(self, slates: Sequence[Slate]) -> Iterator[tuple[int, Scores]]:
        """Yield the counts."""
        for k, slate in enumerate(slates):
            read = self.policy.encoded(self.prepare(slate).slate)
            yield k, Scores(values=tuple(float(len(ids) - start) for ids, start in read))
