"""What a response's log-density under a guided policy comes to at no weight and at much of it.

The ratio is the log-density less that at weight 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from scipy.special import logsumexp

from decoding_laws import laws
from decoding_laws.checks import CLOSE, LawCheck
from decoding_laws.enumeration import Floats
from decoding_laws.token_checks import FEW, final_reward, prefix_reward
from decoding_laws.world import WordWorld
from palate.guidance import Candidates, Fusion, TokenFilter
from palate.models import import_torch

if TYPE_CHECKING:
    from torch import Tensor

SMALL, LARGE = 1e-2, 1e4
NEAR_LIMIT = 1e-2
"""How far a ratio may be from its limit, in standard deviations of the limit."""
PAIRS = 20_000
AGREE, DISAGREE = 0.999, 0.995
Score = Callable[[float], Floats]
"""Log-densities of all responses at a weight."""


def limit_checks(world: WordWorld) -> Iterator[LawCheck]:
    """Check the tilt, and the decoder scores of fusion and of candidates."""
    yield from tilt_checks(world)
    _, q = world.guide("q")
    yield from _decoder(
        "fusion", world, fusion_score(world, TokenFilter(), q), q, len(world.tree.words)
    )
    top = TokenFilter("top-k", FEW)
    yield from _decoder("fusion, top 3", world, fusion_score(world, top, q), q, FEW)
    ruled_out = np.where(np.random.default_rng(world.seed).random(q.shape) < 0.1, -np.inf, q)
    yield _nothing(
        "fusion, −∞ in the guide", world, fusion_score(world, TokenFilter(), ruled_out), None
    )
    reward = prefix_reward(world)
    score = candidate_score(world, reward)
    yield from _decoder("candidates, top 3", world, score, reward, FEW)


def fusion_score(world: WordWorld, keep: TokenFilter, guide: Floats) -> Score:
    """Return a fusion's score of all responses, their own words kept in any case."""

    def score(weight: float) -> Floats:
        p, g, also = _cells(world, guide)
        logp = Fusion(1, weight, keep).logits(p, g, also=also).float().log_softmax(dim=-1)
        return _summed(world, logp.gather(-1, also[:, None])[:, 0])

    return score


def candidate_score(world: WordWorld, reward: Floats) -> Score:
    """Return the score of candidates on K ∪ {y_t}."""

    def score(weight: float) -> Floats:
        p, g, also = _cells(world, reward)
        law = Candidates(weight, FEW)
        tokens = law.tokens(p, also)
        logp = law.logits(p, tokens, g.gather(-1, tokens)).log_softmax(dim=-1)
        response = (tokens == also[:, None]) & ~logp.isneginf()
        return _summed(world, logp.masked_fill(~response, 0).sum(dim=-1))

    return score


def tilt_checks(world: WordWorld) -> Iterator[LawCheck]:
    """Check log p + w R, which candidates with the exact soft value stand for, less log Z."""
    tree, log_p = world.tree, np.log(world.base)
    reward = np.round(final_reward(world), 1)  # so that there are ties

    def score(weight: float) -> Floats:
        soft = tree.backed_up(weight * reward, lambda k, row: float(logsumexp(world.p[k] + row)))
        torch = import_torch()
        law, p = Candidates(1, len(tree.words)), torch.from_numpy(world.p)
        tokens = law.tokens(p)
        logp = law.logits(p, tokens, torch.from_numpy(soft).gather(-1, tokens)).log_softmax(-1)
        table = torch.empty_like(logp).scatter(-1, tokens, logp)
        return tree.sums(table.numpy())

    yield _check("tilt: base", score(0), log_p)
    for weight in (SMALL, 1.0, 30.0):
        plain = log_p + weight * reward
        expected = plain - logsumexp(plain)
        yield _check(f"tilt: log p + {weight:g} R − log Z", score(weight), expected)
    at_large, (a, b) = score(LARGE), _pairs(world)
    differs = reward[a] != reward[b]
    expected_sign = np.where(differs, reward[a] - reward[b], log_p[a] - log_p[b])
    agree = np.sign(at_large[a] - at_large[b]) == np.sign(expected_sign)
    yield LawCheck("tilt: order of R, ties of the base", float(agree.mean()), AGREE, 1)


def _decoder(
    what: str, world: WordWorld, score: Score, guide: Floats, k: int
) -> Iterator[LawCheck]:
    at_nothing = score(0)
    yield _nothing(what, world, score, k)
    # Two small weights tell what the square of the weight adds.
    whole, half = ((score(w) - at_nothing) / w for w in (SMALL, SMALL / 2))
    mask = _mask_with_own(world, k)
    logp = world.p[:, None] + mask
    p = np.exp(logp - logsumexp(logp, axis=-1, keepdims=True))
    slope = world.tree.sums(guide - (p * guide[:, None]).sum(axis=-1))
    yield _check(f"{what}: Σ g − E g", 2 * half - whole, slope, NEAR_LIMIT * slope.std())
    best = (guide[:, None] + mask).max(axis=-1)
    regret = world.tree.sums(guide - best)
    ratio = score(LARGE) - at_nothing
    yield _check(f"{what}: Σ g − max g", ratio / LARGE, regret, NEAR_LIMIT * regret.std())
    a, b = _pairs(world)
    total = world.tree.sums(guide)
    for name, of_limit, low, high in (
        ("regret", regret, AGREE, 1.0),
        ("R: not quite", total, 0.5, DISAGREE),
    ):
        clear = np.abs(of_limit[a] - of_limit[b]) > CLOSE
        agree = np.sign(ratio[a] - ratio[b]) == np.sign(of_limit[a] - of_limit[b])
        yield LawCheck(f"{what}: order of {name}", float(agree[clear].mean()), low, high)


def _nothing(what: str, world: WordWorld, score: Score, k: int | None) -> LawCheck:
    mask = _mask_with_own(world, k or len(world.tree.words))
    base = world.tree.sums(world.p - logsumexp(world.p[:, None] + mask, axis=-1))
    return _check(f"{what}: base", score(0), base)


def _mask_with_own(world: WordWorld, k: int) -> Floats:
    """Return 0 for the words of K ∪ {y_t} (prefixes × y_t × words), −∞ for others."""
    mask = laws.top_k(world.p, k)
    response = np.where(np.eye(mask.shape[1], dtype=np.bool_), 0, -np.inf)
    return np.maximum(mask[:, None], response[None])


def _check(what: str, made: Floats, expected: Floats, bar: float = 10 * CLOSE) -> LawCheck:
    return LawCheck(what, float(np.abs(made - expected).max()), 0, float(bar))


def _cells(world: WordWorld, guide: Floats) -> tuple[Tensor, Tensor, Tensor]:
    """Return a row of log p, of the guide and a word for every cell, as the engine takes them."""
    torch, n = import_torch(), len(world.tree.words)
    p, g = (torch.from_numpy(it).float().repeat_interleave(n, dim=0) for it in (world.p, guide))
    return p, g, torch.arange(n).repeat(len(world.p))


def _summed(world: WordWorld, of_cells: Tensor) -> Floats:
    table: Floats = of_cells.double().numpy()
    return world.tree.sums(table.reshape(world.p.shape))


def _pairs(world: WordWorld) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    generator = np.random.default_rng(world.seed)
    a, b = generator.integers(len(world.tree.responses), size=(2, PAIRS))
    return a[a != b], b[a != b]
