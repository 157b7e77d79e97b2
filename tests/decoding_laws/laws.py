"""What each method draws from, written down a second time: with loops, in double precision."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from decoding_laws.enumeration import Floats, Ids, Response, Tree, log_softmax

Mask = Floats
"""0 where a word may follow, −∞ elsewhere."""


def tilted(p: Floats, reward: Floats) -> Floats:
    """Return p e^R / Z of all responses."""
    made = p * np.exp(reward - reward[np.isfinite(reward)].max())
    return np.asarray(made / made.sum())


def top_k(logp: Floats, k: int) -> Mask:
    """Keep each row's k likeliest words."""
    mask = np.full_like(logp, -np.inf)
    for row, of_row in zip(mask, logp, strict=True):
        for word in sorted(range(len(of_row)), key=lambda v: -of_row[v])[:k]:
            row[word] = 0
    return mask


def top_p(logp: Floats, mass: float) -> Mask:
    """Keep each row's likeliest words until they hold this probability."""
    mask = np.full_like(logp, -np.inf)
    for row, of_row in zip(mask, logp, strict=True):
        reached = 0.0
        for word in sorted(range(len(of_row)), key=lambda v: -of_row[v]):
            row[word] = 0
            reached += float(np.exp(of_row[word]))
            if reached >= mass:
                break
    return mask


def share(logp: Floats, least: float) -> Mask:
    """Keep what has this share of the likeliest word's probability."""
    p = np.exp(logp)
    return np.where(p >= least * p.max(axis=1, keepdims=True), 0, -np.inf)


def everything(logp: Floats) -> Mask:
    """Keep all."""
    return np.zeros_like(logp)


def amulet(p: Floats, q: Floats, turns: int = 60) -> Floats:
    """Return the logits that Amulet's iteration ends with: η 10, α 2, λ 2."""
    eta, alpha, strength = 10.0, 2.0, 2.0
    now, pulls = q, np.zeros_like(q)
    for t in range(1, turns + 1):
        pulls = pulls + alpha * (now - p)
        last = strength * q + pulls / t + now / (eta * t)
        now = log_softmax(last / (strength + 1 / (eta * t)))
    return now


class PresetLaw(NamedTuple):
    """A published method by its paper: s of (log p, guide, w), and what is kept."""

    logits: Callable[[Floats, Floats, float], Floats]
    weight: float
    mask: Callable[[Floats, Floats, int], Mask]
    """Of (log p, guide, how many where it is a number of words)."""
    keep: tuple[str, float, str] = ("all", 1.0, "policy")
    guide: str = "q"
    """q, q less a reference, or the attributes of a user."""


TOP_10 = ("top-k", 10, "policy")
PRESET_LAWS: Mapping[str, PresetLaw] = {
    "genarm": PresetLaw(lambda p, g, w: p + w * g, 1, lambda p, g, k: everything(p)),
    "pad": PresetLaw(
        lambda p, g, w: (1 - w) * p + w * g, 1, lambda p, g, k: top_k(p, k), TOP_10
    ),
    "pad-reference": PresetLaw(
        lambda p, g, w: p + w * g, 1, lambda p, g, k: top_k(p, k), TOP_10, "q − reference"
    ),
    "proxy": PresetLaw(
        lambda p, g, w: p + w * g, 1, lambda p, g, k: everything(p), guide="q − reference"
    ),
    "linear-alignment": PresetLaw(
        lambda p, g, w: (1 + w) * g - w * p, 2, lambda p, g, k: top_p(g, 0.8),
        ("top-p", 0.8, "guide"),
    ),
    "amulet": PresetLaw(lambda p, g, w: amulet(p, g), 4.649, lambda p, g, k: everything(p)),
    "cope": PresetLaw(
        lambda p, g, w: g - w * p, 0.1, lambda p, g, k: share(g, 0.1), ("share", 0.1, "guide")
    ),
    "mod": PresetLaw(
        lambda p, g, w: (1 - w) * p + w * g, 0.5, lambda p, g, k: everything(p)
    ),
    "drift": PresetLaw(
        lambda p, g, w: p + w * g, 1, lambda p, g, k: everything(p), guide="attributes"
    ),
    "farma": PresetLaw(lambda p, g, w: p + w * g, 1, lambda p, g, k: top_k(p, k), TOP_10),
}  # fmt: skip


def best_of(law: Floats, rewards: Floats, k: int) -> Floats:
    """Return the law of the best of k draws: s / s(r) · [F(≤ r)^k − F(< r)^k]."""
    return law * _rise(law, rewards, k)


def _rise(law: Floats, rewards: Floats, k: int) -> Floats:
    # (a^k − b^k) / (a − b) for a = F(≤ r) and b = F(< r), which may be as good as equal.
    a, b = _distribution(law, rewards)
    return np.asarray(sum(a**j * b ** (k - 1 - j) for j in range(k)))


def _distribution(law: Floats, rewards: Floats) -> tuple[Floats, Floats]:
    """Return F(≤ r) and F(< r) at each of the rewards."""
    at = rewards[:, None]
    return (rewards <= at) @ law, (rewards < at) @ law


def rejected(
    law: Floats, rewards: Floats, threshold: float, scale: float, rejections: int
) -> Floats:
    """Return the law of what rejection takes, exhausted or not."""
    accept = np.exp(np.minimum(0, (rewards - threshold) / scale))
    accepted = float((law * accept).sum())
    missed = (1 - accepted) ** rejections
    refused = law * (1 - accept) / (1 - accepted)
    # The best is one of the refused, or the last, which nothing refuses.
    of_refused = refused * _rise(refused, rewards, rejections) * _distribution(law, rewards)[0]
    of_last = law * _distribution(refused, rewards)[1] ** rejections
    return np.asarray(law * accept / accepted * (1 - missed) + missed * (of_refused + of_last))


def by_segments(
    tree: Tree,
    log_probabilities: Floats,
    length: int,
    reward: Callable[[Ids], float],
    choose: Callable[[Floats, Floats], Floats],
) -> Floats:
    """Return the law of responses whose segments are chosen: `choose` of (law, rewards)."""
    p, made = np.exp(log_probabilities), dict[Response, float]()
    open_: dict[Ids, float] = {(): 1.0}
    while open_:
        later: dict[Ids, float] = {}
        for ids, reach in open_.items():
            proposals = _proposals(tree, p, ids, min(len(ids) + length, tree.length))
            law = np.array(list(proposals.values()))
            rewards = np.array([reward(proposal) for proposal, _ in proposals])
            for (proposal, ended), chance in zip(proposals, choose(law, rewards), strict=True):
                if ended or len(proposal) == tree.length:
                    made[proposal, not ended] = reach * float(chance)
                else:
                    later[proposal] = reach * float(chance)
        open_ = later
    return np.array([made[response] for response in tree.responses])


def _proposals(tree: Tree, p: Floats, ids: Ids, stop: int) -> dict[tuple[Ids, bool], float]:
    if len(ids) == stop:
        return {(ids, False): 1.0}
    row = p[tree.place[ids]]
    made = {(ids, True): float(row[tree.ends].sum())}
    for column, word in enumerate(tree.words):
        if column not in tree.ends:
            below = _proposals(tree, p, (*ids, word), stop)
            made.update({key: float(row[column]) * chance for key, chance in below.items()})
    return made
