"""Methods: how a policy and its guide write an answer."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol, Self

from palate.engines import LocalModel
from palate.errors import UsageError
from palate.guidance.candidates import Candidates
from palate.guidance.fusion import Fusion, Preset, args_preset
from palate.guidance.guides import Guide, PrefixGuide, TokenGuide, prefix_guide, token_guide
from palate.guidance.segments import Blocks, Rate, Rejection, write_segments
from palate.guidance.stepwise import CandidateRows, FusedRows, Guided, GuidedRow, Writing, write
from palate.metrics.selection import kl_bound


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
    """The policy's k likeliest tokens, rated by the prefixes that they make, or alone (ARGS)."""

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
