"""Fusions, candidates: the engine's law of every response, and samples of it."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from scipy.special import logsumexp

from decoding_laws import laws
from decoding_laws.checks import LawCheck, own_law, samples, total_variation
from decoding_laws.enumeration import Floats, log_softmax
from decoding_laws.world import (
    LEAST_SPREAD,
    PrefixTable,
    WordWorld,
    engine_table,
    leaves_of,
    spread,
)
from palate.guidance import PRESETS, Candidates, Fusion, TokenFilter

DRAWS = 4000
FEW = 3
"""What ten words are cut to where there are eight."""
APART = 0.02
"""Least total variation of a law that is said not to be another."""
ERRORS = 4.0
HALF = 0.5
"""A weight of which many responses are left to be drawn."""


def fusion_checks(world: WordWorld, two_ends: WordWorld) -> Iterator[LawCheck]:
    """Check every preset, step by step and drawn."""
    least = min(spread(world.table(name)) for name in ("policy", "guide", "reference"))
    yield LawCheck("standard deviation, least of the models", least, LEAST_SPREAD, math.inf)
    for name in laws.PRESET_LAWS:
        yield preset(world, name)
    yield preset(world, "genarm", temperature=0.7)
    yield preset(world, "linear-alignment", temperature=1.5)
    yield trained_policy(world)
    yield from drawn_fusion(world, "genarm, w = ½, T = 1.4", 1.4)
    yield from drawn_fusion(world, "genarm, w = ½, T = 1.4, top_p = 0.9", 1.4, 0.9)
    yield from drawn_fusion(two_ends, "genarm, w = ½, two end tokens")


def preset(world: WordWorld, name: str, temperature: float = 1.0) -> LawCheck:
    """Check the law that a preset's rows make of all responses."""
    expected, code, tree = laws.PRESET_LAWS[name], PRESETS[name], world.tree
    guide, reward = world.guide(expected.guide)
    summed = expected.logits(world.p, reward, expected.weight)
    summed = summed + expected.mask(world.p, reward, FEW)
    keep = code.keep._replace(number=FEW) if code.keep.how == "top-k" else code.keep
    stepper, _ = world.fused(code.law(code.weight, keep), guide, len(leaves_of(tree)))
    made = engine_table(tree, stepper, leaves_of(tree), temperature)
    at = "" if temperature == 1 else f", T = {temperature:g}"
    law = tree.law(log_softmax(summed / temperature))
    check = own_law(f"{name}{at}", tree.law(made), law, world.base)
    same = tuple(code.keep) == expected.keep and math.isclose(
        code.weight, expected.weight, abs_tol=1e-3
    )
    return check if same else check._replace(value=math.inf)


def trained_policy(world: WordWorld) -> LawCheck:
    """Check that a guide of log q − log p at weight 1 writes as q does."""
    tree = world.tree
    guide, _ = world.guide("q − policy")
    stepper, _ = world.fused(Fusion(1, 1), guide, len(leaves_of(tree)))
    made = engine_table(tree, stepper, leaves_of(tree))
    law = tree.law(world.table("guide"))
    return own_law("log q − log p: sampling q", tree.law(made), law, world.base)


def drawn_fusion(
    world: WordWorld, what: str, temperature: float = 1.0, top_p: float = 1.0
) -> Iterator[LawCheck]:
    """Check responses that were drawn, and how far they are said to have moved."""
    tree = world.tree
    guide, reward = world.guide("q")
    logp = log_softmax((world.p + HALF * reward) / temperature)
    inside = logp if top_p == 1 else log_softmax(logp + laws.top_p(logp, top_p))
    made = world.fused(Fusion(1, HALF), guide, DRAWS)
    drawn, divergences = world.write(made, temperature, top_p)
    plain = log_softmax(world.p / temperature)
    law, base = tree.law(inside), tree.law(plain)
    yield samples(what, tree, law, base, drawn)
    if top_p == 1:
        yield divergence(what, world, logp, plain, np.array(divergences))


def divergence(
    what: str, world: WordWorld, logp: Floats, plain: Floats, divergences: Floats
) -> LawCheck:
    """Check the mean of the divergences of drawn responses, in standard errors."""
    terms = np.exp(logp) * np.where(np.isneginf(logp), 0, logp - plain)
    # E Σ_t, by the chance that a response goes through each prefix.
    exact = float(sum(world.tree.reach(logp) * terms.sum(axis=1)))
    error = float(divergences.std(ddof=1)) / math.sqrt(len(divergences))
    apart = (float(divergences.mean()) - exact) / error
    return LawCheck(f"divergence: {what}", apart, -ERRORS, ERRORS)


def candidate_checks(world: WordWorld) -> Iterator[LawCheck]:
    """Check what each kind of prefix reward makes of the policy."""
    tree, n = world.tree, len(leaves_of(world.tree))
    every = len(tree.words)
    reward = final_reward(world)
    tilt = laws.tilted(world.base, reward)

    def law_of(law: Candidates, values: Floats, temperature: float = 1.0) -> Floats:
        stepper, _ = world.candidates(law, PrefixTable(world, values), n)
        return tree.law(engine_table(tree, stepper, leaves_of(tree), temperature))

    soft = tree.backed_up(reward, lambda k, row: float(logsumexp(world.p[k] + row)))
    for what, k in (("soft value, k = |V|", every), ("soft value, k > |V|", every + 2)):
        yield own_law(what, law_of(Candidates(1, k), soft), tilt, world.base)
    mean = tree.backed_up(reward, lambda k, row: float(np.exp(world.p[k]) @ row))
    made = law_of(Candidates(1, every), mean)
    yield own_law("mean value", made, tree.law(log_softmax(world.p + mean)), world.base)
    yield LawCheck("mean value: not the tilt", total_variation(made, tilt), APART, 1)
    guide, q = world.guide("q")

    def fused(keep: TokenFilter) -> Floats:
        stepper, _ = world.fused(Fusion(1, 1, keep), guide, n)
        return tree.law(engine_table(tree, stepper, leaves_of(tree)))

    top = law_of(Candidates(1, FEW), q)
    on_top = fused(TokenFilter("top-k", FEW))
    yield own_law("log q on the top 3: fusion there", top, on_top, world.base)
    added = law_of(Candidates(1, every), q + tree.sums_before(q)[:, None])
    yield own_law("sum of token rewards: fusion", added, fused(TokenFilter()), world.base)
    yield from args_checks(world)


def args_checks(world: WordWorld) -> Iterator[LawCheck]:
    """Check ARGS: any prefix reward on the likeliest words, listed, at a temperature, drawn."""
    tree, n, temperature = world.tree, len(leaves_of(world.tree)), 1.4
    values, weight = prefix_reward(world), 1.5
    summed = world.p + weight * values + laws.top_k(world.p, FEW)
    guide = PrefixTable(world, values)
    logp = log_softmax(summed / temperature)
    law = tree.law(logp)
    stepper, _ = world.candidates(Candidates(weight, FEW), guide, n)
    made = engine_table(tree, stepper, leaves_of(tree), temperature)
    what = f"ARGS, T = {temperature:g}"
    base = tree.law(log_softmax(world.p / temperature))
    yield own_law(what, tree.law(made), law, base)
    drawn, divergences = world.write(
        world.candidates(Candidates(weight, FEW), guide, DRAWS), temperature
    )
    yield samples(what, tree, law, base, drawn)
    yield divergence(what, world, logp, log_softmax(world.p / temperature), np.array(divergences))


def prefix_reward(world: WordWorld) -> Floats:
    """Return a reward of every cell: a random direction of the rater's state."""
    direction = np.random.default_rng(world.seed).normal(size=world.states.shape[-1])
    made = world.states @ direction
    return np.asarray((made - made.mean()) / made.std())


def final_reward(world: WordWorld) -> Floats:
    """Return a reward of every response: what a prefix reward says of it in the end."""
    values, tree = 2 * prefix_reward(world), world.tree
    last = [values[tree.place[ids[:-1]], tree.words.index(ids[-1])] for ids in tree.longest]
    return np.concatenate([values[:, tree.ends[0]], last])
