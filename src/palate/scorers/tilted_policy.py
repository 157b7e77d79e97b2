"""A policy tilted by a reward, read as a scorer of responses: log p(y | x) + w R(y)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self, cast

import numpy as np

from palate.errors import SpecError
from palate.metrics.policy import READINGS, PolicyScores, Reading, ranked
from palate.records import (
    Choice,
    Component,
    Prepared,
    Scorer,
    ScorerInfo,
    Scores,
    Slate,
    components_of,
    info_of,
    prepare,
    results_of,
)
from palate.scorers.lift import ScaledDifference
from palate.scorers.policy_likelihood import PolicyLikelihood, TokenCount
from palate.seeding import digest
from palate.specs import Spec


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


class OwnRatio(ScaledDifference):
    """log p(y | shown, x) − log p_base(y | x): what a policy says by itself of being shown."""

    beta = 1.0

    def __init__(self, shown: PolicyLikelihood, base: PolicyLikelihood) -> None:
        self.models = (shown, base)
        self.components = (Component(shown), Component(base, without_context=True))
        self.info = shown.info


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
        listed = (*components_of(guide), *self.further_components())
        self.components = tuple(dict.fromkeys(listed))

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
        if "guide" not in self.spec.options:
            return str(self.spec)
        return str(self.spec.having(guide=self.guide_spec, state=None))

    @property
    def info(self) -> ScorerInfo:
        """What the numbers depend on: those of guide and policy, the weight and the reading."""
        guide = info_of(self.guide, str(self.spec))
        prints = [guide.fingerprint]
        for part in self.components:
            prints += [info_of(part.scorer, str(self.spec)).fingerprint, str(part.without_context)]
        return guide.model_copy(
            update={
                "fingerprint": digest("policy", *prints, str(self.weight), self.reading),
                "exact": False,
                "log_odds": False,
                "details": {"policy": self.start.info.details, "guide": guide.details},
            }
        )

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
        values = tuple(None if math.isnan(value) else value for value in order.tolist())
        return Scores(values=values, reasons=reasons)

    def score(self, slates: Sequence[Slate]) -> Iterator[tuple[int, Scores]]:
        """Yield scores; every component goes through all slates."""
        parts: list[dict[int, Scores]] = []
        complete = [True] * len(slates)
        for number, (scorer, without_context) in enumerate(self.components):
            read: list[Prepared] = [
                prepare(scorer, slate.without_context() if without_context else slate)
                for slate in slates
            ]
            if not number:
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
        return guided + self.start.prompts(
            slate.without_context() if self.base.without_context else slate
        )

    def notes(self) -> tuple[str, ...]:
        """Return what guide and policy note."""
        listed: list[tuple[str, ...]] = [
            getattr(scorer, "notes", tuple)() for scorer in (self.guide, self.start)
        ]
        return tuple(dict.fromkeys(note for notes in listed for note in notes))


class StatefulPolicy(SteeredPolicy):
    """A policy whose guide keeps a state per user."""

    guide: Any

    @property
    def state(self) -> str:
        """Whose state the guide reads."""
        return str(self.guide.state)

    @property
    def wants_choices(self) -> bool:
        """True until the guide knows any user's state."""
        return bool(self.guide.wants_choices)

    @property
    def known(self) -> Sequence[str]:
        """Keys of the users with a state."""
        return cast(Sequence[str], self.guide.known)

    @property
    def draws(self) -> int:
        """How many third users' states score a row."""
        return getattr(self.guide, "draws", 1)

    def adapted(self, history: Mapping[str, Sequence[Choice]]) -> Self:
        """Return this policy with a guide that has a state for each user."""
        return type(self)(self.spec, self.guide.adapted(history), self.base)

    def join(self, choices: Mapping[str, Sequence[Choice]]) -> Self:
        """Return this policy with a guide that knows these users too."""
        return type(self)(self.spec, self.guide.join(choices), self.base)


def numbers(scores: Scores) -> np.ndarray:
    """Return the values of scores, NaN where there is none."""
    return np.array([math.nan if v is None else v for v in scores.values], np.float64)
