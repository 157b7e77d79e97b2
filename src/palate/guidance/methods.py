"""Methods: how a policy and its guide write an answer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any, ClassVar, NamedTuple, Self

from palate.engines import LocalModel
from palate.errors import UsageError
from palate.guidance.guides import PrefixGuide, TokenGuide, prefix_guide, token_guide
from palate.guidance.laws import PRESETS, TOKEN_METHODS, Candidates, Fusion, K, Preset, args_preset
from palate.guidance.segments import Blocks, Rate, Rejection, write_segments
from palate.guidance.stepwise import CandidateRows, FusedRows, Guided, Rows, Writing, write
from palate.metrics.selection import kl_bound
from palate.specs import Spec


class GuidedBatch(NamedTuple):
    """Answers that are written together, and what they are written with."""

    policy: LocalModel
    rows: Rows
    how: Writing
    guide: Any = None
    """Its `TokenGuide` or `PrefixGuide`, for a method that reads tokens."""
    rate: Rate | None = None
    """Rewards of texts, for a method that reads segments."""
    thresholds: Sequence[float] = ()


@dataclass(frozen=True)
class ByToken:
    """Draws token by token: a published sum of log-probabilities, or the policy's candidates."""

    spec: str
    """Canonical spec."""
    weight: float
    """How much the guide counts."""
    preset: Preset | None = None
    """None for the k likeliest tokens, rated by the prefixes that they make, or alone (ARGS)."""
    k: int = K

    def __post_init__(self) -> None:
        """Refuse a weight that means nothing; raises `UsageError`."""
        if self.preset is None:
            Candidates(self.weight, self.k).check()
        else:
            self.preset.law(self.weight)

    @property
    def identity(self) -> tuple[object, ...]:
        """All that answers depend on: coefficients and keep-set, or weight and k; no name."""
        if self.preset is None:
            return ("candidates", self.weight, self.k)
        law = self.preset.law(self.weight)
        return ("fusion", *law[:2], list(law.keep))

    def guide(self, scorer: Any, spec: str) -> TokenGuide | PrefixGuide:
        """Return the scorer's reward of tokens; for candidates that of prefixes, where it has none.

        Raises `UsageError` where there is neither, or it is not what the method is for.
        """
        if self.preset is None and getattr(scorer, "token_guide", lambda: None)() is None:
            return prefix_guide(scorer, spec)
        guide = token_guide(scorer, spec)
        if self.preset is not None:
            self.preset.check(self.spec, guide.coefficients, spec)
        return guide

    def law_with(self, guide: TokenGuide | PrefixGuide) -> Fusion | Candidates:
        """Return the law of the next token under a guide."""
        if self.preset is None and not hasattr(guide, "coefficients"):
            return Candidates(self.weight, self.k)
        return (self.preset or args_preset(self.k)).law(self.weight)

    def write(self, batch: GuidedBatch) -> list[Guided]:
        """Write with policy and guide in step."""
        law = self.law_with(batch.guide)
        members = batch.policy, batch.guide, batch.rows, batch.how.max_tokens
        stepper = (
            FusedRows(law, *members) if isinstance(law, Fusion) else CandidateRows(law, *members)
        )
        return write(stepper, batch.policy, batch.rows, batch.how)

    def divergence(self, answer: Guided) -> float:
        """Return the estimate of an answer's divergence in nats."""
        return answer.divergence

    def bound(self, written: int) -> None:
        """Return None: no bound is known."""


@dataclass(frozen=True)
class BySegment:
    """Rates texts: the best of K segments, or those that are accepted by their reward (CARDS)."""

    spec: str
    law: Blocks | Rejection
    """Of rejection without the thresholds, which are a request's own."""
    quantile: float | None = None
    """Of the rewards of unguided answers, which gives the thresholds of rejection."""
    weight: ClassVar[None] = None
    """It takes none."""

    @property
    def identity(self) -> tuple[object, ...]:
        """All that answers depend on but the thresholds."""
        if isinstance(self.law, Blocks):
            return ("blocks", *self.law)
        return ("rejection", *self.law[1:])

    def guide(self, scorer: Any, spec: str) -> None:
        """Raise `UsageError` for a judge; every scorer can rate a text."""
        if not hasattr(scorer, "score"):
            raise UsageError(f"{spec} compares two answers; segments need a scorer of single ones")

    def having(self, scale: float) -> Self:
        """Return the method with a β, unless it was given one or has none."""
        if isinstance(self.law, Blocks) or self.law.scale is not None:
            return self
        return replace(self, law=self.law._replace(scale=scale))

    def write(self, batch: GuidedBatch) -> list[Guided]:
        """Write segment by segment."""
        assert batch.rate is not None
        law = self.law
        if isinstance(law, Rejection):
            law = law._replace(thresholds=batch.thresholds)
        return write_segments(law, batch.policy, batch.rows, batch.how, batch.rate)

    def divergence(self, answer: Guided) -> None:
        """Return None: the law of a chosen segment is not known."""

    def bound(self, written: int) -> float | None:
        """Return the most that an answer of so many tokens diverges, where that is known.

        It is log K − (K − 1)/K for every segment that is the best of K.
        """
        if isinstance(self.law, Rejection):
            return None
        return math.ceil(written / self.law.length) * kl_bound(self.law.proposals)


Method = ByToken | BySegment
QUANTILE = 0.7
NAMES = (*TOKEN_METHODS, "blocks", "rejection")


def all_methods(texts: Sequence[str], weights: Sequence[float] = ()) -> list[Method]:
    """Return every method at each weight, equal ones once; weights are for those that take one.

    Raises `UsageError` as `build_methods`, and for a weight that no method takes.

    >>> [(method.spec, method.weight) for method in all_methods(["mod", "blocks"], [0.5])]
    [('mod', 0.5), ('blocks', None)]
    """
    without = [text for text in texts if text.partition("?")[0] not in TOKEN_METHODS]
    built = (
        method
        for text in texts
        for method in build_methods(
            text, () if text in without and len(without) < len(texts) else weights
        )
    )
    return list({(method.spec, method.weight): method for method in built}.values())


def build_methods(text: str, weights: Sequence[float] = ()) -> list[Method]:
    """Return a method at each weight, by default at its own.

    Raises `UsageError` for a name, an option or a weight that means nothing.

    >>> [(method.spec, method.weight) for method in build_methods("genarm", [0.5, 1])]
    [('genarm', 0.5), ('genarm', 1)]
    >>> build_methods("blocks?K=0")
    Traceback (most recent call last):
    palate.errors.SpecError: spec 'blocks?k=0': k='0' is not a whole number of 1 or more
    """
    spec = Spec.parse(text.replace("?K=", "?k=").replace("&K=", "&k="))  # as papers write it
    spec.refuse_reference()
    weights = list(dict.fromkeys(weights))
    if spec.kind in TOKEN_METHODS:
        preset = PRESETS.get(spec.kind)
        spec.only(() if preset else {"k"})
        k = K if preset else spec.number("k", K, least=1)
        default = preset.weight if preset else 1.0
        return [ByToken(str(spec), weight, preset, k) for weight in weights or [default]]
    if spec.kind not in NAMES:
        near = get_close_matches(spec.kind, NAMES, 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise UsageError(f"method {text!r}: expected one of {', '.join(NAMES)}{hint}")
    if weights:
        raise UsageError(f"weight {weights[0]:g}: {spec.kind} takes no weight")
    length = spec.number("length", Blocks().length, least=1)
    if spec.kind == "blocks":
        spec.only({"k", "length"})
        blocks = Blocks(spec.number("k", Blocks().proposals, least=1), length)
        return [BySegment(str(spec), blocks)]
    spec.only({"quantile", "beta", "length", "retries"})
    quantile = spec.positive("quantile", QUANTILE)
    if quantile >= 1:
        raise UsageError(f"method {text!r}: quantile: expected a number between 0 and 1")
    scale = spec.positive("beta", 1.0) if "beta" in spec.options else None
    rejection = Rejection((), scale, length, spec.number("retries", 20, least=1))
    return [BySegment(str(spec), rejection, quantile)]
