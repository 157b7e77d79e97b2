"""A guided policy token by token: responses that it writes, and the score of one that is there.

Many rows are written together, each until its first end token. A response that is there is scored
at every weight at once: with s_0 the logits at weight 0 and d what a unit of weight adds,
S_w = Σ_t log π_w(y_t | y_<t) is a sum over tokens of s_0(y) + w d(y) − log Σ_v e^{s_0(v) + w d(v)};
all weights share s_0 and d.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from palate.engines import (
    LOGIT_ROWS,
    Continuation,
    LocalModel,
    Member,
    ModelEnsemble,
    TokenSpan,
    draw,
    stream,
)
from palate.guidance.guides import PrefixGuide, PrefixRows, Reading, TokenGuide
from palate.guidance.laws import Candidates, Fusion, Preset, weighted
from palate.models import import_torch
from palate.records import Slate

if TYPE_CHECKING:
    from torch import Tensor

Ids = Sequence[int]
LogProbSums = dict[str, float]
"""Of one response: `base`, `slope`, `limit`, `ties`, `tokens`, `misses`, and S_w by weight."""
COLUMNS = ("base", "slope", "limit", "ties", "tokens", "misses")


class GuidedRow(NamedTuple):
    """One response to write: the policy's prompt, what the guide reads, the sample's number."""

    prompt: Ids
    reading: Reading
    number: int


Rows = Sequence[GuidedRow]


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


class FusedRows:
    """Rows of a fusion: policy and guide read every token, once each."""

    def __init__(
        self, law: Fusion, policy: LocalModel, guide: TokenGuide, rows: Rows, room: int
    ) -> None:
        self.law, self.coefficients = law, guide.coefficients
        self.valid_ids = policy.valid_ids
        members = [
            Member(model, [row.reading.prompts[k] for row in rows])
            for k, model in enumerate(guide.models)
        ]
        prompts = [row.prompt for row in rows]
        self.members = ModelEnsemble([Member(policy, prompts), *members], room)
        self.read = {"policy": 1, "guide": len(self.coefficients)}
        """Tokens that policy and guide read to write one."""

    def step(self) -> Step:
        """Return the law of the next token at every row: the fused logits of all tokens."""
        policy, *terms = map(self.valid_ids.only, self.members.log_probabilities())
        reward = weighted(self.coefficients, terms)
        return Step(self.law.logits(policy, reward), policy)

    def go_on(self, rows: Sequence[int], chosen: Sequence[int]) -> None:
        """Go on with these rows alone; `chosen` is every row's place in the law."""
        if len(rows) < len(chosen):
            self.members = self.members.of(rows)
        self.members.advance([chosen[row] for row in rows])


class CandidateRows:
    """Rows of candidates: the policy reads every token, the guide k for each that is written."""

    def __init__(
        self, law: Candidates, policy: LocalModel, guide: PrefixGuide, rows: Rows, room: int
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
        """Go on with these rows alone; `chosen` is every row's place in the law."""
        self.prefixes.take(chosen)
        if len(rows) < len(chosen):
            self.policy, self.prefixes = self.policy.of(rows), self.prefixes.of(rows)
        self.policy.advance([self._tokens[row][chosen[row]] for row in rows])


Stepper = FusedRows | CandidateRows


def write(stepper: Stepper, policy: LocalModel, rows: Rows, how: Writing) -> list[Guided]:
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


class TeacherForced(NamedTuple):
    """A response that is there: what the policy and each model of the guide read before it."""

    prompt: Ids
    prompts: Sequence[Ids]
    response: Ids
    """With its first end token."""


Responses = Sequence[TeacherForced]
Weights = Sequence[float]


def weight_name(weight: float) -> str:
    """Return what the sum at a weight is called."""
    return f"{weight:.17g}"


def fused_sums(
    preset: Preset, policy: LocalModel, guide: TokenGuide, responses: Responses, weights: Weights
) -> list[LogProbSums]:
    """Return the sums of responses to one slate under a fusion; every model reads each once."""
    torch = policy.torch
    models = (policy, *guide.models)
    read = []
    for k, model in enumerate(models):
        spans = [
            _span((forced.prompt, *forced.prompts)[k], forced.response) for forced in responses
        ]
        read.append(next(outputs for _, outputs in model.outputs([spans])))
    law, more = preset.law(0.0), preset.law(1.0)
    per_unit = more.policy - law.policy, more.guide - law.guide
    sums = []
    for k, forced in enumerate(responses):
        total: LogProbSums = {}
        for first in range(0, len(forced.response), LOGIT_ROWS):
            rows = slice(first, first + LOGIT_ROWS)
            following = torch.tensor(list(forced.response[rows]), device=policy.device)
            with torch.inference_mode():
                laws = (
                    model.head.distributions(outputs[k][rows]).to(policy.device)
                    for model, outputs in zip(models, read, strict=True)
                )
                logp, *terms = map(policy.valid_ids.only, laws)
                reward = weighted(guide.coefficients, terms)
                start = law.logits(logp, reward, following)
                step = weighted(per_unit, (logp, reward))
                step = step.masked_fill(~reward.isfinite(), -math.inf)
                mask = law.mask(logp, reward)
                missed = following.new_zeros(len(following), dtype=torch.bool)
                if mask is not None:
                    missed = ~mask.gather(-1, following[:, None])[:, 0]
                _add(total, token_sums(start, step, following, weights), missed)
        sums.append(total)
    return sums


def candidate_sums(
    law: Candidates,
    policy: LocalModel,
    guide: PrefixGuide,
    slate: Slate,
    responses: Responses,
    weights: Weights,
) -> list[LogProbSums]:
    """Return the sums of responses to one slate on the policy's candidates and the next token."""
    torch = policy.torch
    room = max(len(forced.response) for forced in responses)
    rows = [
        GuidedRow(forced.prompt, Reading(slate, tuple(forced.prompts)), 0) for forced in responses
    ]
    going = list(range(len(responses)))
    sums: list[LogProbSums] = [{} for _ in responses]
    with torch.inference_mode():
        stepper = CandidateRows(law, policy, guide, rows, room)
        for position in range(room):
            logp = stepper.log_probabilities()
            following = torch.tensor(
                [responses[k].response[position] for k in going], device=policy.device
            )
            tokens = law.tokens(logp, also=following)
            rewards = stepper.rewards(tokens)
            start = law._replace(weight=0.0).logits(logp, tokens, rewards)
            place = (tokens == following[:, None]).int().argmax(dim=-1)
            missed = ~(law.tokens(logp) == following[:, None]).any(dim=-1)
            made = token_sums(start, rewards.float(), place, weights)
            for row, k in enumerate(going):
                of_row = slice(row, row + 1)
                _add(sums[k], {name: part[of_row] for name, part in made.items()}, missed[of_row])
            left = [row for row, k in enumerate(going) if position + 1 < len(responses[k].response)]
            if not left:
                break
            stepper.go_on(left, place.tolist())
            going = [going[row] for row in left]
    return sums


def token_sums(
    start: Tensor, step: Tensor, position: Tensor, weights: Weights
) -> Mapping[str, Tensor]:
    """Return each token's part (rows) of the sums.

    `start` are logits at weight 0 (rows × choices, −∞ for what cannot follow), `step` what a unit
    of weight adds (−∞ for what the guide rules out), `position` the choice that was made.
    """
    torch = import_torch()
    start, step, position = start.float(), step.float(), position[:, None]
    at_start, more = start.gather(-1, position)[:, 0], step.gather(-1, position)[:, 0]
    level = start.logsumexp(dim=-1)  # at weight 0 what the guide rules out may follow
    out = ~(start.isfinite() & step.isfinite())
    start, step = start.masked_fill(out, -math.inf), step.masked_fill(out, 0.0)
    best = step.masked_fill(out, -math.inf).amax(dim=-1)
    expected = (torch.softmax(start, dim=-1) * step).sum(dim=-1)
    among = start.masked_fill(step < best[:, None], -math.inf)
    summed = {
        "base": at_start - level,
        "slope": more - expected,
        "limit": more - best,
        "ties": at_start - among.logsumexp(dim=-1),
    }
    for weight in weights:
        if weight and math.isfinite(weight):
            whole = (start + weight * step).logsumexp(dim=-1)
            summed[weight_name(weight)] = at_start + weight * more - whole
    return summed


def _span(prompt: Ids, response: Ids) -> TokenSpan:
    ids = (*prompt, *response)
    return TokenSpan(ids, len(prompt) - 1, len(ids) - 1)


def _add(total: LogProbSums, made: Mapping[str, Tensor], missed: Tensor) -> None:
    for name, part in made.items():
        total[name] = total.get(name, 0.0) + float(part.double().sum())
    total["tokens"] = total.get("tokens", 0.0) + len(missed)
    total["misses"] = total.get("misses", 0.0) + int(missed.sum())
