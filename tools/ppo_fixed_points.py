"""Where an algorithm comes to rest in the world of `ppo_world.py`, by backward induction.

At rest a policy is π(a | s) ∝ π_ref(a | s) exp(Q(s, a) / β) in every state s, a prefix of an
answer. What an algorithm takes for Q decides whether that is the best policy:

- KL in the reward (PPO, RLOO): Q holds the reward to come less β times the KL to come. Then π = π*,
  whose J is J*.
- KL in the loss (GRPO): the loss holds the KL of each token, and its gradient weighs each token by
  its own log-ratio alone. No token answers for the KL of the tokens behind it, so Q is the reward
  to come, and J stays under J*, however long and from however many answers it learns.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
from ppo_world import ANSWERS, GOLD, PLACE, USERS, Rewards, World

from palate.trainers.algorithms import Algorithm

Prefix = tuple[int, ...]
Numbers = np.ndarray[Any, np.dtype[np.float64]]


def fixed_point(world: World, algorithm: Algorithm, rewards: Rewards = GOLD) -> Rewards:
    """Return log π of every answer, of the policy at which an algorithm's mean gradient is 0."""
    kl_to_come = algorithm != "grpo"
    return {
        user: _induced(world.reference[user], rewards[user], world.beta, kl_to_come=kl_to_come)
        for user in USERS
    }


def _induced(reference: Numbers, rewards: Numbers, beta: float, *, kl_to_come: bool) -> Numbers:
    masses = prefix_probabilities(reference)
    following: dict[Prefix, list[Prefix]] = defaultdict(list)
    for prefix in masses:
        if prefix:
            following[prefix[:-1]].append(prefix)
    worth, chosen = {}, {}  # the value of a prefix, log π of its last token
    for prefix in sorted(masses, key=len, reverse=True):
        if prefix in PLACE:
            worth[prefix] = float(rewards[PLACE[prefix]])
            continue
        ways = following[prefix]
        quality = np.array([worth[way] for way in ways])
        tilted = np.log([masses[way] / masses[prefix] for way in ways]) + quality / beta
        total = np.logaddexp.reduce(tilted)
        chosen.update(zip(ways, tilted - total, strict=True))
        mean = np.exp(tilted - total) @ quality
        worth[prefix] = float(beta * total if kl_to_come else mean)
    return np.array([
        sum(chosen[answer[:k]] for k in range(1, len(answer) + 1)) for answer in ANSWERS
    ])  # fmt: skip


def prefix_probabilities(log_probs: Numbers) -> dict[Prefix, float]:
    """Return how probable it is that an answer begins so, for every beginning of an answer."""
    masses: dict[Prefix, float] = defaultdict(float)
    for answer, probability in zip(ANSWERS, np.exp(log_probs), strict=True):
        for k in range(len(answer) + 1):
            masses[answer[:k]] += float(probability)
    return masses
