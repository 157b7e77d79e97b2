"""Segments: the policy writes M tokens at a time, and a scorer's reward of the text decides.

- Blocks: the best of K proposals. P(g) = s(g)/s(r = r(g)) · [F(≤ r)^K − F(< r)^K], s the law of
  proposals, F the distribution of their rewards. One block as long as the response is best-of-n.
- Rejection (CARDS, arXiv 2406.16306): a proposal of reward r is accepted with probability
  a = min(1, e^{(r − τ)/β}); the accepted law ∝ s · e^{min(r, τ)/β}. After R rejections the best of
  all R + 1 is taken.

Proposals are drawn as the policy draws; a proposal that ends stays as it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from palate.engines import KVRows, LocalModel, begin_rows, draw
from palate.errors import ModelError
from palate.guidance.stepwise import Guided, Rows, Writing
from palate.seeding import rng

WAVE = 4
"""Proposals of a row that are written at the same time; it changes no law and no random stream."""
Rate = Callable[[Sequence[tuple[int, str]]], Sequence[float | None]]
"""From (row, text written so far) to rewards; None where there is none."""


class Blocks(NamedTuple):
    """Best of K proposals of M tokens each."""

    proposals: int = 4
    length: int = 32


class Rejection(NamedTuple):
    """Proposals of M tokens, accepted by their reward."""

    thresholds: Sequence[float]
    """τ of each row."""
    scale: float | None
    """β: rewards this much below the threshold are accepted e times more rarely.

    None until the rewards of unguided answers give it."""
    length: int = 32
    rejections: int = 20
    """R."""


@dataclass
class _Proposal:
    ids: list[int] = field(default_factory=list)
    ended: bool = False
    rows: KVRows | None = None
    """Where it can go on from, and which row there."""
    at: int = 0
    log_probability: float = 0.0
    reward: float = -math.inf


def write_segments(
    law: Blocks | Rejection, policy: LocalModel, rows: Rows, how: Writing, rate: Rate
) -> list[Guided]:
    """Write a response to every row, segment by segment; all rows go through a segment together.

    Raises `ModelError` where a reward of a text that is written is missing.
    """
    prompts = [row.prompt for row in rows]
    base = begin_rows(policy, prompts, how.max_tokens, logits=not policy.head.apart)
    responses = [Guided(tokens={"policy": 0, "guide": 0}) for _ in rows]
    going, segment = list(range(len(rows))), 0
    while going:
        length = min(law.length, how.max_tokens - segment * law.length)
        writer = _Segment(policy, rows, how, rate, responses, segment, length, base, going)
        chosen = _best_of(law, writer) if isinstance(law, Blocks) else _accepted(law, writer)
        left = []
        for k, proposal in zip(going, chosen, strict=True):
            responses[k].ids += proposal.ids
            responses[k].log_probability += proposal.log_probability
            responses[k].cut_off = not proposal.ended
            if not proposal.ended:
                left.append((k, proposal))
        segment += 1
        if segment * law.length >= how.max_tokens or not left:
            break
        base = _joined([proposal for _, proposal in left])
        going = [k for k, _ in left]
    for response in responses:
        response.text = policy.text(response.ids)
    return responses


def _joined(proposals: Sequence[_Proposal]) -> KVRows:
    """Return the rows that these proposals go on from, in their order."""
    parts = [(proposal.rows, [proposal.at]) for proposal in proposals if proposal.rows is not None]
    assert len(parts) == len(proposals)
    return KVRows.join(parts)


def _best_of(law: Blocks, writer: _Segment) -> list[_Proposal]:
    best: list[_Proposal] = []
    for first in range(0, law.proposals, WAVE):
        wave = range(first, min(first + WAVE, law.proposals))
        made = writer.propose(range(len(writer.going)), wave)
        if best:
            made = [[former, *more] for former, more in zip(best, made, strict=True)]
        best = [max(proposals, key=lambda proposal: proposal.reward) for proposals in made]
        _keep_apart(best)
    return best


def _accepted(law: Rejection, writer: _Segment) -> list[_Proposal]:
    going, scale = writer.going, law.scale
    assert scale is not None
    chosen: list[_Proposal | None] = [None] * len(going)
    best: list[_Proposal | None] = [None] * len(going)
    done = 0
    while waiting := [k for k, proposal in enumerate(chosen) if proposal is None]:
        wave = range(done, min(done + WAVE, law.rejections + 1))
        for k, made in zip(waiting, writer.propose(waiting, wave), strict=True):
            threshold = law.thresholds[going[k]]
            for number, proposal in zip(wave, made, strict=True):
                last = number == law.rejections
                chance = math.exp(min(0.0, (proposal.reward - threshold) / scale))
                if not last and writer.point(going[k], number) < chance:
                    chosen[k] = proposal
                    break
                former = best[k]
                if former is None or proposal.reward > former.reward:
                    best[k] = proposal
                if last:
                    chosen[k] = best[k]
        done += len(wave)
        best = [proposal if chosen[k] is None else None for k, proposal in enumerate(best)]
        _keep_apart([proposal for proposal in (*chosen, *best) if proposal is not None])
    return [proposal for proposal in chosen if proposal is not None]


def _keep_apart(proposals: Sequence[_Proposal]) -> None:
    """Let go of the rows of all other proposals of a wave."""
    alive = [proposal for proposal in proposals if not proposal.ended]
    rows = _joined(alive) if alive else None
    for proposal in proposals:
        proposal.rows = None if proposal.ended else rows
    for at, proposal in enumerate(alive):
        proposal.at = at


@dataclass
class _Segment:
    """Writes and rates proposals for one segment of the rows that go on."""

    policy: LocalModel
    rows: Rows
    how: Writing
    rate: Rate
    responses: Sequence[Guided]
    number: int
    length: int
    base: KVRows
    going: Sequence[int]
    """Which of the rows those of `base` are."""

    def point(self, row: int, proposal: int) -> float:
        """Return the point in [0, 1) that decides whether a proposal is accepted."""
        return float(self._stream("accept", row, proposal).random())

    def _stream(self, what: str, row: int, proposal: int) -> Any:
        of = self.rows[row]
        return rng(what, self.how.seed, list(of.prompt), of.number, self.number, proposal)

    def propose(self, waiting: Sequence[int], numbers: Sequence[int]) -> list[list[_Proposal]]:
        """Return proposals of these numbers for the waiting of the rows, each with its reward."""
        going, owners = self.going, [k for k in waiting for _ in numbers]
        proposals = self._write(owners, [n for _ in waiting for n in numbers])
        texts = []
        for k, proposal in zip(owners, proposals, strict=True):
            response = self.responses[going[k]]
            ids = response.ids + proposal.ids
            text = self.policy.text(ids)
            texts.append((going[k], text))
            response.tokens["policy"] += len(proposal.ids) + proposal.ended
            response.tokens["guide"] += len(ids)
        for (row, text), proposal, reward in zip(texts, proposals, self.rate(texts), strict=True):
            if reward is None and text.strip():
                raise ModelError(f"the guide gives no reward to a text that was begun: row {row}")
            proposal.reward = -math.inf if reward is None else float(reward)
        width = len(numbers)
        return [proposals[first : first + width] for first in range(0, len(proposals), width)]

    def _write(self, owners: Sequence[int], numbers: Sequence[int]) -> list[_Proposal]:
        torch, how = self.policy.torch, self.how
        places = zip(owners, numbers, strict=True)
        streams = [self._stream("segment", self.going[k], n) for k, n in places]
        proposals = [_Proposal() for _ in owners]
        rows = self.base.of(owners)
        for _ in range(self.length):
            logp = self.policy.valid_ids.only(rows.each(self.policy.head.distributions))
            points = [stream.random() for stream in streams]
            tokens = draw(torch, logp, points, how.temperature, how.top_p)
            at = logp[range(len(tokens)), tokens].tolist()
            for proposal, token, value in zip(proposals, tokens, at, strict=True):
                if proposal.ended:
                    continue
                proposal.log_probability += value
                proposal.ended = token in self.policy.ends
                if not proposal.ended:
                    proposal.ids.append(token)
            if all(proposal.ended for proposal in proposals):
                break
            rows.advance(tokens)  # one that ended goes on, so that all stay equally long
        for at_row, proposal in enumerate(proposals):
            proposal.rows, proposal.at = rows, at_row
        return proposals
