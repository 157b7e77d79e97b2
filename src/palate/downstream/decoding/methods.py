"""Methods: what `--method NAME?option=…` and a weight make of a policy and its guide."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any, Literal, NamedTuple, Protocol, Self

from palate.engines import LocalModel
from palate.engines.guidance import (
    PRESETS,
    Blocks,
    CandidateRows,
    Candidates,
    FusedRows,
    Fusion,
    Guide,
    Guided,
    GuidedRow,
    PrefixGuide,
    Preset,
    Rejection,
    TokenGuide,
    Writing,
    prefix_guide,
    token_guide,
    write,
    write_segments,
)
from palate.engines.guidance.candidates import K
from palate.engines.guidance.fusion import args_preset
from palate.engines.guidance.segments import Rate
from palate.errors import UsageError
from palate.metrics.selection import kl_bound
from palate.specs import Spec

QUANTILE = 0.7
WEIGHTED = (*PRESETS, "args")
NAMES = (*WEIGHTED, "blocks", "rejection")


class GuidedBatch(NamedTuple):
    """Answers that are written together, and what they are written with."""

    policy: LocalModel
    rows: Sequence[GuidedRow]
    how: Writing
    guide: Any = None
    """Its `TokenGuide` or `PrefixGuide`, for a method that reads tokens."""
    rate: Rate | None = None
    """Rewards of texts, for a method that reads segments."""
    thresholds: Sequence[float] = ()


class Method(Protocol):
    """Writes guided answers."""

    @property
    def spec(self) -> str:
        """Canonical spec."""

    @property
    def weight(self) -> float | None:
        """How much the guide counts; None for a method that takes no weight."""

    reads: Literal["tokens", "texts"]
    """What of an answer its guide rates."""

    @property
    def identity(self) -> tuple[object, ...]:
        """All of it that answers depend on."""

    def guide(self, scorer: Any, spec: str) -> Guide | None:
        """Return what a scorer offers it; raises `UsageError` where that is nothing."""

    def write(self, batch: GuidedBatch) -> list[Guided]:
        """Write an answer to every row."""

    def divergence(self, answer: Guided) -> float | None:
        """Return the estimate of an answer's divergence in nats; None where there is none."""

    def bound(self, written: int) -> float | None:
        """Return the most that an answer of so many tokens diverges, if that is known."""


class ByToken(ABC):
    """What methods have in common that draw token by token."""

    reads: Literal["tokens", "texts"] = "tokens"

    @abstractmethod
    def guide(self, scorer: Any, spec: str) -> TokenGuide | PrefixGuide:
        """Return what a scorer offers it; raises `UsageError` where that is nothing."""

    @abstractmethod
    def law_with(self, guide: TokenGuide | PrefixGuide) -> Fusion | Candidates:
        """Return the law of the next token under a guide."""

    def write(self, batch: GuidedBatch) -> list[Guided]:
        """Write with policy and guide in step."""
        law, room = self.law_with(batch.guide), batch.how.max_tokens
        stepper: FusedRows | CandidateRows
        if isinstance(law, Fusion):
            stepper = FusedRows(law, batch.policy, batch.guide, batch.rows, room)
        else:
            stepper = CandidateRows(law, batch.policy, batch.guide, batch.rows, room)
        return write(stepper, batch.policy, batch.rows, batch.how)

    def divergence(self, answer: Guided) -> float | None:
        """Return what the writer has summed."""
        return answer.divergence

    def bound(self, written: int) -> float | None:
        """Return None: there is an estimate."""
        del written
        return None


@dataclass(frozen=True)
class FusionMethod(ByToken):
    """A published sum of log-probabilities."""

    spec: str
    weight: float
    preset: Preset

    @property
    def law(self) -> Fusion:
        """The law at the weight."""
        return self.preset.law(self.weight)

    @property
    def identity(self) -> tuple[object, ...]:
        """The coefficients and the keep-set: a name is no law."""
        return ("fusion", *self.law[:2], list(self.law.keep))

    def guide(self, scorer: Any, spec: str) -> TokenGuide:
        """Return the scorer's reward of tokens, if it is of the kind that the method is for."""
        guide = token_guide(scorer, spec)
        self.preset.check(self.spec, guide.coefficients, spec)
        return guide

    def law_with(self, guide: TokenGuide | PrefixGuide) -> Fusion:
        """Return the law at the weight."""
        del guide
        return self.law


@dataclass(frozen=True)
class CandidateMethod(ByToken):
    """The policy's k likeliest tokens, rated by the prefixes that they make (ARGS)."""

    spec: str
    weight: float
    k: int

    @property
    def identity(self) -> tuple[object, ...]:
        """Weight and k."""
        return ("candidates", self.weight, self.k)

    def guide(self, scorer: Any, spec: str) -> TokenGuide | PrefixGuide:
        """Return the scorer's reward of tokens, else of prefixes."""
        if getattr(scorer, "token_guide", lambda: None)() is not None:
            return token_guide(scorer, spec)
        return prefix_guide(scorer, spec)

    def law_with(self, guide: TokenGuide | PrefixGuide) -> Fusion | Candidates:
        """Return the law; where tokens have rewards, prefixes differ by their last token's."""
        if hasattr(guide, "coefficients"):
            return args_preset(self.k).law(self.weight)
        return Candidates(self.weight, self.k)


class BySegment:
    """What methods have in common that rate texts."""

    reads: Literal["tokens", "texts"] = "texts"
    weight: float | None = None

    def guide(self, scorer: Any, spec: str) -> None:
        """Raise `UsageError` for a judge; every scorer can rate a text."""
        if not hasattr(scorer, "score"):
            raise UsageError(f"{spec} compares two answers; segments need a scorer of single ones")

    def divergence(self, answer: Guided) -> None:
        """Return None: the law of a chosen segment is not known."""
        del answer


@dataclass(frozen=True)
class BlockMethod(BySegment):
    """The best of K proposals, segment by segment."""

    spec: str
    law: Blocks

    @property
    def identity(self) -> tuple[object, ...]:
        """K and the length of a segment."""
        return ("blocks", *self.law)

    def write(self, batch: GuidedBatch) -> list[Guided]:
        """Write segment by segment."""
        assert batch.rate is not None
        return write_segments(self.law, batch.policy, batch.rows, batch.how, batch.rate)

    def bound(self, written: int) -> float:
        """Return log K − (K − 1)/K for every segment."""
        return math.ceil(written / self.law.length) * kl_bound(self.law.proposals)


@dataclass(frozen=True)
class RejectionMethod(BySegment):
    """Segments that are accepted by their reward (CARDS)."""

    spec: str
    quantile: float
    """Of the rewards of unguided answers, which gives the thresholds."""
    scale: float | None
    """β; None until the rewards of unguided answers give it."""
    length: int
    rejections: int

    @property
    def identity(self) -> tuple[object, ...]:
        """All but the thresholds, which are a request's own."""
        return ("rejection", self.scale, self.length, self.rejections)

    def having(self, scale: float) -> Self:
        """Return the method with a β, unless it was given one."""
        return self if self.scale is not None else replace(self, scale=scale)

    def write(self, batch: GuidedBatch) -> list[Guided]:
        """Write segment by segment."""
        assert batch.rate is not None
        assert self.scale is not None
        law = Rejection(batch.thresholds, self.scale, self.length, self.rejections)
        return write_segments(law, batch.policy, batch.rows, batch.how, batch.rate)

    def bound(self, written: int) -> None:
        """Return None: it depends on how rewards are spread."""
        del written


def all_methods(texts: Sequence[str], weights: Sequence[float] = ()) -> list[Method]:
    """Return every method at each weight, equal ones once; weights are for those that take one.

    Raises `UsageError` as `build_methods`, and for a weight that no method takes.

    >>> [(one.spec, one.weight) for one in all_methods(["mod", "blocks"], [0.5])]
    [('mod', 0.5), ('blocks', None)]
    """
    without = [text for text in texts if text.partition("?")[0] not in WEIGHTED]
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

    >>> [(one.spec, one.weight) for one in build_methods("genarm", [0.5, 1])]
    [('genarm', 0.5), ('genarm', 1)]
    >>> build_methods("blocks?K=0")
    Traceback (most recent call last):
    palate.errors.SpecError: spec 'blocks?k=0': k='0' is not a whole number of 1 or more
    """
    spec = Spec.parse(text.replace("?K=", "?k=").replace("&K=", "&k="))  # as papers write it
    spec.refuse_reference()
    weights = list(dict.fromkeys(weights))
    if spec.kind in PRESETS:
        spec.only(())
        preset = PRESETS[spec.kind]
        fused = [FusionMethod(str(spec), w, preset) for w in weights or [preset.weight]]
        for method in fused:
            _ = method.law  # refuses a weight that is no number
        return [*fused]
    if spec.kind == "args":
        spec.only({"k"})
        k = spec.number("k", K, least=1)
        for weight in weights:
            Candidates(weight, k).check()
        return [CandidateMethod(str(spec), weight, k) for weight in weights or [1.0]]
    if spec.kind not in NAMES:
        near = get_close_matches(spec.kind, NAMES, 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise UsageError(f"--method {text}: expected one of {', '.join(NAMES)}{hint}")
    if weights:
        raise UsageError(f"--weight {weights[0]:g}: {spec.kind} takes no weight")
    length = spec.number("length", Blocks().length, least=1)
    if spec.kind == "blocks":
        spec.only({"k", "length"})
        law = Blocks(spec.number("k", Blocks().proposals, least=1), length)
        return [BlockMethod(str(spec), law)]
    spec.only({"quantile", "beta", "length", "retries"})
    quantile = spec.positive("quantile", QUANTILE)
    if quantile >= 1:
        raise UsageError(f"--method {text}: quantile: expected a number between 0 and 1")
    scale = spec.positive("beta", 1.0) if "beta" in spec.options else None
    return [
        RejectionMethod(str(spec), quantile, scale, length, spec.number("retries", 20, least=1))
    ]
