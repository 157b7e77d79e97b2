"""Guided writing a token at a time: many rows go on together, each until its first end token."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

from palate.engines.local import LocalModel
from palate.engines.local.decoding import Continuation, draw
from palate.engines.local.decoding.ensemble import Member, ModelEnsemble
from palate.engines.local.decoding.sampling import stream
from palate.guidance.candidates import Candidates
from palate.guidance.fusion import Fusion, weighted
from palate.guidance.guides import PrefixGuide, Reading, TokenGuide
from palate.guidance.prefixes import PrefixRows
from palate.models import import_torch

if TYPE_CHECKING:
    from torch import Tensor

Ids = Sequence[int]


class GuidedRow(NamedTuple):
    """One response to write: the policy's prompt, what the guide reads, the sample's number."""

    prompt: Ids
    reading: Reading
    number: int


class Writing(NamedTuple):
    """How tokens are drawn, as for a policy that nothing guides."""

    max_tokens: int
    temperature: float = 1.0
    top_p: float = 1.0
    seed: int = 0


@dataclass
class Guided(Continuation):
    """A guided response, and how far it was guided."""

    divergence: float = 0.0
    """Σ_t KL(π(· | y_<t) ‖ p(· | y_<t)) at the tokens written, in nats: an unbiased estimate of
    the divergence of the guided law from the policy's at the same temperature, before `top_p`."""
    tokens: dict[str, int] = field(default_factory=dict)
    """Tokens that policy and guide read for it, prompts left out."""


class Step(NamedTuple):
    """The law of the next token at every row."""

    logits: Tensor
    """s, rows × choices; −∞ for what cannot follow."""
    policy: Tensor
    """log p, rows × vocabulary."""
    tokens: Tensor | None = None
    """The choices (rows × choices); None where they are the vocabulary in order."""


class Stepper(Protocol):
    """Rows of a method that draws token by token."""

    read: dict[str, int]
    """Tokens that policy and guide read to write one."""

    def step(self) -> Step:
        """Return the law of the next token at every row."""

    def go_on(self, rows: Sequence[int], chosen: Sequence[int]) -> None:
        """Go on with these rows alone; `chosen` is every row's place in the law."""


class FusedRows:
    """Rows of a fusion: policy and guide read every token, once each."""

    def __init__(
        self,
        law: Fusion,
        policy: LocalModel,
        guide: TokenGuide,
        rows: Sequence[GuidedRow],
        room: int,
    ) -> None:
        self.law, self.coefficients = law, guide.coefficients
        self.valid_ids = policy.valid_ids
        self.members = ModelEnsemble(
            [
                Member(policy, [row.prompt for row in rows]),
                *(
                    Member(model, [row.reading.prompts[k] for row in rows])
                    for k, model in enumerate(guide.models)
                ),
            ],
            room,
        )
        self.read = {"policy": 1, "guide": len(self.coefficients)}

    def step(self) -> Step:
        """Return the fused logits of all tokens."""
        policy, *terms = map(self.valid_ids.only, self.members.log_probabilities())
        reward = weighted(self.coefficients, terms)
        return Step(self.law.logits(policy, reward), policy)

    def go_on(self, rows: Sequence[int], chosen: Sequence[int]) -> None:
        """Go on with these rows alone."""
        if len(rows) < len(chosen):
            self.members = self.members.of(rows)
        self.members.advance([chosen[row] for row in rows])


class CandidateRows:
    """Rows of candidates: the policy reads every token, the guide k for each that is written."""

    def __init__(
        self,
        law: Candidates,
        policy: LocalModel,
        guide: PrefixGuide,
        rows: Sequence[GuidedRow],
        room: int,
    ) -> None:
        self.law, self.valid_ids = law, policy.valid_ids
        self.policy = ModelEnsemble([Member(policy, [row.prompt for row in rows])], room)
        self.prefixes = PrefixRows(guide, [row.reading for row in rows], policy.ends, room)
        self.read = {"policy": 1, "guide": law.k}

    def step(self) -> Step:
        """Return the logits of the candidates, after the guide has read each of them."""
        policy = self.log_probabilities()
        tokens = self.law.tokens(policy)
        return Step(self.law.logits(policy, tokens, self.rewards(tokens)), policy, tokens)

    def log_probabilities(self) -> Tensor:
        """Return the policy's log p of every next token (rows × vocabulary)."""
        (logp,) = self.policy.log_probabilities()
        return self.valid_ids.only(logp)

    def rewards(self, tokens: Tensor) -> Tensor:
        """Return the reward of each row's prefix with each candidate (rows × k), float32."""
        self._tokens: list[list[int]] = tokens.tolist()
        return self.prefixes.rewards(self._tokens)

    def go_on(self, rows: Sequence[int], chosen: Sequence[int]) -> None:
        """Go on with these rows alone."""
        self.prefixes.take(chosen)
        if len(rows) < len(chosen):
            self.policy, self.prefixes = self.policy.of(rows), self.prefixes.of(rows)
        self.policy.advance([self._tokens[row][chosen[row]] for row in rows])


def write(
    stepper: Stepper, policy: LocalModel, rows: Sequence[GuidedRow], how: Writing
) -> list[Guided]:
    """Write a response to every row; sample k of a prompt has the random stream of a plain one."""
    torch = policy.torch
    streams = [stream(how.seed, row.prompt, row.number) for row in rows]
    responses = [Guided() for _ in rows]
    going = list(range(len(rows)))
    for step in range(how.max_tokens):
        with torch.inference_mode():
            law = stepper.step()
            moved = divergence(law, how.temperature)
        points = [streams[k].random() for k in going]
        chosen = draw(torch, law.logits, points, how.temperature, how.top_p)
        tokens = chosen
        if law.tokens is not None:
            tokens = [int(law.tokens[row, at]) for row, at in enumerate(chosen)]
        logp = law.policy[range(len(tokens)), tokens].tolist()
        left = []
        for row, (k, token) in enumerate(zip(going, tokens, strict=True)):
            response = responses[k]
            response.log_probability += logp[row]
            response.divergence += moved[row]
            if token in policy.ends:
                response.cut_off = False
                continue
            response.ids.append(token)
            left.append(row)
        if not left or step == how.max_tokens - 1:
            break
        with torch.inference_mode():
            stepper.go_on(left, chosen)
        going = [going[row] for row in left]
    for response in responses:
        response.text = policy.text(response.ids)
        response.tokens = {name: response.drawn * n for name, n in stepper.read.items()}
    return responses


def divergence(law: Step, temperature: float) -> list[float]:
    """Return KL(π ‖ p) of the next token at every row, both at the temperature, in nats.

    Greedy writing puts all of π on one token: then it is −log p of that, at temperature 1.
    """
    torch = import_torch()
    if temperature == 0:
        best = law.logits.argmax(dim=-1, keepdim=True)
        at = best if law.tokens is None else law.tokens.gather(-1, best)
        chosen: list[float] = (-law.policy.gather(-1, at)[:, 0]).tolist()
        return chosen
    guided = torch.log_softmax(law.logits / temperature, dim=-1)
    plain = torch.log_softmax(law.policy / temperature, dim=-1)
    if law.tokens is not None:
        plain = plain.gather(-1, law.tokens)
    terms = guided.exp() * (guided - plain)
    summed: list[float] = terms.masked_fill(guided == -math.inf, 0.0).sum(dim=-1).tolist()
    return summed
