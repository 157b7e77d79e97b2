"""Blocks and rejection: samples of the engine against the listed law."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from decoding_laws import laws
from decoding_laws.checks import LawCheck, samples
from decoding_laws.enumeration import Floats, Ids, log_softmax
from decoding_laws.world import LENGTH, SLATE, WordWorld
from palate.guidance import Blocks, Reading, Rejection, Writing, write_segments
from palate.seeding import rng

DRAWS = 3000
MOST = math.sqrt(3)
"""Rewards are uniform on ±√3, so that their standard deviation is 1."""
THRESHOLD, SCALE = 1.2, 0.5
PATIENT, IMPATIENT = 30, 2
"""Rejections: so many that hardly any segment exhausts them, and so few that most do."""
TO_THE_END = 200
Choose = Callable[[Floats, Floats], Floats]
"""From the law of proposals and their rewards to the law of the one taken."""


class Rewards:
    """A reward of every text, drawn for it."""

    def __init__(self, seed: int) -> None:
        self.seed, self._drawn = seed, dict[str, float]()

    def of_text(self, text: str) -> float:
        if text not in self._drawn:
            self._drawn[text] = float(rng("reward", self.seed, text).uniform(-MOST, MOST))
        return self._drawn[text]

    def of_ids(self, ids: Ids) -> float:
        return self.of_text(" ".join(map(str, ids)))

    def rate(self, texts: Sequence[tuple[int, str]]) -> list[float]:
        return [self.of_text(text) for _, text in texts]


def segment_checks(world: WordWorld, two_ends: WordWorld) -> list[LawCheck]:
    """Check the best of K, and rejection that accepts, is exhausted, or is the tilt."""
    rewards = Rewards(world.seed)
    best = max(rewards.of_ids(ids) for ids, _ in world.tree.responses)

    def best_of(k: int) -> Choose:
        return lambda law, of_law: laws.best_of(law, of_law, k)

    def rejected(threshold: float, scale: float, rejections: int) -> Choose:
        return lambda law, of_law: laws.rejected(law, of_law, threshold, scale, rejections)

    accepted, impatient = (THRESHOLD, SCALE, PATIENT), (MOST, SCALE / 2, IMPATIENT)
    cases: list[tuple[str, WordWorld, Blocks | Rejection, Choose, float]] = [
        ("best of 3 blocks of 2", world, Blocks(3, 2), best_of(3), 1.0),
        ("best of 5 blocks of 3 (of 4), T = 0.8", world, Blocks(5, 3), best_of(5), 0.8),
        ("best of 4 responses", world, Blocks(4, LENGTH), best_of(4), 1.0),
        ("best of 3 blocks of 2, two end tokens", two_ends, Blocks(3, 2), best_of(3), 1.0),
        ("rejection, accepted", world, rejection(*accepted), rejected(*accepted), 1.0),
        ("rejection, exhausted, T = 0.8", world, rejection(*impatient), rejected(*impatient), 0.8),
        (
            "rejection of responses, τ = max r: the tilt",
            world,
            rejection(best, 1.0, TO_THE_END, LENGTH),
            laws.tilted,
            1.0,
        ),
    ]
    return [drawn_segments(*case, rewards=rewards) for case in cases]


def rejection(threshold: float, scale: float, rejections: int, length: int = 2) -> Rejection:
    """Return rejection with one threshold for all rows."""
    return Rejection([threshold] * DRAWS, scale, length, rejections)


def drawn_segments(
    what: str,
    world: WordWorld,
    law: Blocks | Rejection,
    choose: Choose,
    temperature: float = 1.0,
    *,
    rewards: Rewards,
) -> LawCheck:
    """Check responses that were drawn in segments."""
    rows = world.rows(Reading(SLATE, ()), DRAWS)
    how = Writing(LENGTH, temperature, seed=world.seed)
    written = write_segments(law, world.policy, rows, how, rewards.rate)
    plain = log_softmax(world.p / temperature)
    expected = laws.by_segments(world.tree, plain, law.length, rewards.of_ids, choose)
    base = world.tree.law(plain)
    drawn = [(tuple(it.ids), it.cut_off) for it in written]
    return samples(what, world.tree, np.asarray(expected), base, drawn)
