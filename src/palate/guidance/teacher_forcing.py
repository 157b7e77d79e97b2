"""The law of a guided policy along a response that is there: its score at every weight at once.

With s_0 the logits at weight 0 and d what a unit of weight adds, S_w = Σ_t log π_w(y_t | y_<t) is a
sum over tokens of s_0(y) + w d(y) − log Σ_v e^{s_0(v) + w d(v)}; all weights share s_0 and d.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from palate.engines.local import LocalModel, TokenSpan
from palate.engines.local.loading import LOGIT_ROWS
from palate.guidance.candidates import Candidates
from palate.guidance.fusion import Preset, weighted
from palate.guidance.guides import PrefixGuide, Reading, TokenGuide
from palate.guidance.stepwise import CandidateRows, GuidedRow
from palate.models import import_torch
from palate.records import Slate

if TYPE_CHECKING:
    from torch import Tensor

Ids = Sequence[int]
LogProbSums = dict[str, float]
"""Of one response: `base`, `slope`, `limit`, `ties`, `tokens`, `misses`, and S_w by weight."""
COLUMNS = ("base", "slope", "limit", "ties", "tokens", "misses")


class TeacherForced(NamedTuple):
    """A response that is there: what the policy and each model of the guide read before it."""

    prompt: Ids
    prompts: Sequence[Ids]
    response: Ids
    """With its first end token."""


def weight_name(weight: float) -> str:
    """Return what the sum at a weight is called."""
    return f"{weight:.17g}"


def fused_sums(
    preset: Preset,
    policy: LocalModel,
    guide: TokenGuide,
    responses: Sequence[TeacherForced],
    weights: Sequence[float],
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
    responses: Sequence[TeacherForced],
    weights: Sequence[float],
) -> list[LogProbSums]:
    """Return the sums of responses to one slate on the policy's candidates and the next token."""
    torch = policy.torch
    room = max(len(forced.response) for forced in responses)
    rows = [GuidedRow(it.prompt, Reading(slate, tuple(it.prompts)), 0) for it in responses]
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
    start: Tensor, step: Tensor, position: Tensor, weights: Sequence[float]
) -> Mapping[str, Tensor]:
    """Return each token's part (rows) of the sums.

    `start` are logits at weight 0 (rows × choices, −∞ for what cannot follow), `step` what a unit
    of weight adds (−∞ for what the guide rules out), `at` the choice that was made.
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
