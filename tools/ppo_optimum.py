"""How near PPO, RLOO and GRPO come to the best policy, in a world where that is known.

    python tools/ppo_optimum.py [--algorithm ppo] [--seeds 3] [--updates 200]
    python tools/ppo_optimum.py --control [--scorers 20] [--updates 60]

The first prints (J − J_ref) / (J* − J_ref) after 200 updates of 64 answers; the bar is 0.98. J and
J* are sums over every answer (`ppo_world.py`), so nothing in them is estimated.

The second trains one policy by PPO on each of many scorers, from perfect to useless: each is gold
with noise that is fixed per answer, brought to the spread of gold. It prints how often a scorer
ranks two answers of the start as gold does, what its policy earns by its own rewards and by gold,
and Kendall's τ of the two, over scorers. Bars: τ is 0.9 or more, the lower end of its interval is
over 0.6, and some policy's reward rises while gold falls.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from ppo_world import GOLD, USERS, Rewards, World

from palate.downstream.ppo import ALGORITHMS, Algorithm, PolicyTraining
from palate.metrics.ranks import RankAgreement, kendall_agreement
from palate.reports import Form, Table, render

BETA = 0.2
BAR, TAU_BAR, LOW_BAR = 0.98, 0.9, 0.6
RATES = {"ppo": 3e-3, "rloo": 3e-3, "grpo": 3e-3}
CONTROL_BETA = 0.3


def recipe_of(algorithm: Algorithm, updates: int, seed: int, beta: float = BETA) -> PolicyTraining:
    """Return what is trained, the same for all three but for what is an algorithm's own."""
    return PolicyTraining(
        algorithm=algorithm, updates=updates, answers=64, answers_at_once=64, max_new_tokens=4,
        learning_rate=RATES[algorithm], kl_coefficient=beta, value_learning_rate=1e-2,
        value_clip_range=None, seed=seed, dtype="float32",
    )  # fmt: skip


def shares(
    algorithms: list[Algorithm], seeds: int, updates: int
) -> Iterator[tuple[str, int, float, float]]:
    """Yield algorithm, seed, the share of the possible gain, and CPU seconds of an update."""
    for algorithm in algorithms:
        for seed in range(seeds):
            with tempfile.TemporaryDirectory() as root:
                world, began = World(Path(root), seed, BETA), time.process_time()
                model = world.train(recipe_of(algorithm, updates, seed), Path(root) / "out").model
                spent = (time.process_time() - began) / updates
                share = world.share(model)
                sys.stderr.write(f"{algorithm}, seed {seed}: {share:.4f}\n")
                yield algorithm, seed, share, spent


def scorer(world: World, noise: float, seed: int) -> Rewards:
    """Return gold mixed with noise, brought to gold's mean and spread over the start's answers.

    At 0 it is gold, at 1 it knows nothing.
    """
    stream, table = np.random.default_rng(seed), {}
    for user in USERS:
        weight, gold = np.exp(world.reference[user]), GOLD[user]
        mean = weight @ gold
        spread = np.sqrt(weight @ (gold - mean) ** 2)
        mixed = (1 - noise) * (gold - mean) / spread + noise * stream.normal(size=len(gold))
        mixed = mixed - weight @ mixed
        table[user] = mean + spread * mixed / np.sqrt(weight @ mixed**2)
    return table


def pair_accuracy(world: World, rewards: Rewards, pairs: int = 4_000) -> float:
    """Return how often two answers of the start are ranked as gold ranks them; ties of gold apart.

    The pairs are the same for all scorers.
    """
    stream, right = np.random.default_rng(0), []
    for user in USERS:
        weight = np.exp(world.reference[user])
        one, other = stream.choice(len(weight), (2, pairs), p=weight / weight.sum())
        gold = np.sign(GOLD[user][one] - GOLD[user][other])
        said = np.sign(rewards[user][one] - rewards[user][other])
        right.append(((1 + gold * said) / 2)[gold != 0])
    return float(np.mean(np.concatenate(right)))


def controlled(scorers: int, updates: int) -> tuple[list[list[float]], RankAgreement]:
    """Return a row for each scorer, and how well accuracy ranks gold."""
    rows = []
    with tempfile.TemporaryDirectory() as root:
        world = World(Path(root), 0, CONTROL_BETA)
        start = world.load()[0]
        for k, noise in enumerate(np.linspace(0, 1, scorers)):
            rewards = scorer(world, float(noise), seed=k)
            recipe = recipe_of("ppo", updates, seed=0, beta=CONTROL_BETA)
            model = world.train(recipe, Path(root) / f"out-{k}", rewards).model
            rows.append([
                float(noise), pair_accuracy(world, rewards),
                world.mean(start, rewards), world.mean(model, rewards),
                world.mean(start), world.mean(model),
            ])  # fmt: skip
            sys.stderr.write(" ".join(f"{number:.3f}" for number in rows[-1]) + "\n")
    columns = np.array(rows).T
    return rows, kendall_agreement(columns[1], columns[5])


def print_shares(told: Any) -> bool:
    """Print the first table; return whether every share reaches the bar."""
    algorithms = [told.algorithm] if told.algorithm else list(ALGORITHMS)
    rows = []
    for algorithm, seed, share, seconds in shares(algorithms, told.seeds, told.updates or 200):
        rows.append((algorithm, str(seed), f"{share:.4f}", f"{seconds:.3f}"))
    header = ["algorithm", "seed", "share of J* − J_ref", "CPU s an update"]
    sys.stdout.write(render([Table("nearness to the best policy", header, rows)], Form.MARKDOWN))
    lowest = min(float(row[2]) for row in rows)
    sys.stdout.write(f"\nlowest share: {lowest} (bar {BAR})\n")
    return lowest >= BAR


def print_control(told: Any) -> bool:
    """Print the second table; return whether its three bars are reached."""
    rows, tau = controlled(told.scorers, told.updates or 60)
    header = ["noise", "accuracy", "own reward before", "after", "gold before", "after"]
    cells = [[f"{number:.3f}" for number in row] for row in rows]
    sys.stdout.write(render([Table("PPO on scorers of many strengths", header, cells)],
                            Form.MARKDOWN))  # fmt: skip
    misled = [row for row in rows if row[3] > row[2] and row[5] < row[4]]
    low, value = tau.interval.low or 0.0, tau.value or 0.0
    sys.stdout.write(
        f"\nKendall's τ of accuracy and gold: {value:.3f} [{low:.3f}, {tau.interval.high or 1:.3f}]"
        f" over {tau.n} scorers (bars: τ {TAU_BAR}, lower end {LOW_BAR})\n"
        f"scorers whose reward rises while gold falls: {len(misled)} (bar 1)\n"
    )
    return value >= TAU_BAR and low > LOW_BAR and bool(misled)


def main() -> int:
    """Print one of the two; return 1 where a bar is not reached."""
    parser = argparse.ArgumentParser(description="PPO, RLOO and GRPO against an exact optimum")
    parser.add_argument("--algorithm", choices=list(ALGORITHMS), help="by default all three")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--updates", type=int)
    parser.add_argument("--control", action="store_true")
    parser.add_argument("--scorers", type=int, default=20)
    told = parser.parse_args()
    torch.set_num_threads(1)
    transformers.utils.logging.disable_progress_bar()
    return int(not (print_control if told.control else print_shares)(told))


if __name__ == "__main__":
    sys.exit(main())
