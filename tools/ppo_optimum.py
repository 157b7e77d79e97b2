"""How near PPO, RLOO and GRPO come to the best policy, in a world where that is known.

    python tools/ppo_optimum.py [--algorithm ppo] [--seeds 3] [--updates 200]
    python tools/ppo_optimum.py --control [--scorers 20] [--first-seed 30] [--seeds 3]

The first prints (J − J_ref) / (J* − J_ref) after 200 updates of 64 answers; the bar is 0.98. J and
J* are sums over every answer (`ppo_world.py`), so nothing in them is estimated. Beside it stands
where the algorithm comes to rest (`ppo_fixed_points.py`): GRPO's limit lies under the best policy.

The second trains a policy by PPO on each of many scorers, from perfect to useless: each is gold
with noise that is fixed per answer, brought to the spread of gold. Every seed is another start,
with noise and draws of its own. Printed are, for each strength and as means over seeds, how often a
scorer ranks two answers of the start as gold does, and what its policies gain by its own rewards
and by gold; then Kendall's τ, over scorers, of that accuracy and the gain in gold. A nat of KL
costs 1, near a deviation of the rewards. Where it costs a third of that, the few answers that a
scorer likes most decide, and accuracy, for which all pairs count, cannot tell. Bars: τ is 0.9 or
more, the lower end of its interval over 0.6, and some scorer's reward rises while gold falls.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import transformers
from ppo_fixed_points import fixed_point
from ppo_world import GOLD, USERS, Rewards, World, log_probs

from palate.metrics import kendall_agreement
from palate.reports import Form, Table, render
from palate.trainers.algorithms import ALGORITHMS, Algorithm, PolicyTraining

BETA = 0.2
BAR, TAU_BAR, LOW_BAR = 0.98, 0.9, 0.6
RATES = {"ppo": 3e-3, "rloo": 3e-3, "grpo": 3e-3}
CONTROL_BETA = 1.0


def recipe_of(algorithm: Algorithm, updates: int, seed: int, beta: float = BETA) -> PolicyTraining:
    """Return what is trained, the same for all three but for what is an algorithm's own."""
    critic: dict[str, Any] = {"value_learning_rate": 1e-2, "value_clip_range": None}
    return PolicyTraining(
        algorithm=algorithm, updates=updates, epochs=4, answers=64, answers_at_once=64,
        max_new_tokens=4, learning_rate=RATES[algorithm], kl_coefficient=beta, save_every=None,
        seed=seed, dtype="float32", **(critic if algorithm == "ppo" else {}),
    )  # fmt: skip


def shares(
    algorithms: list[Algorithm], seeds: int, updates: int
) -> Iterator[tuple[str, int, float, float, float]]:
    """Yield algorithm, seed, share of the possible gain, its limit, CPU seconds of an update."""
    for algorithm in algorithms:
        for seed in range(seeds):
            with tempfile.TemporaryDirectory() as root:
                world, began = World(Path(root), seed, BETA), time.process_time()
                model = world.train(recipe_of(algorithm, updates, seed), Path(root) / "out").model
                spent = (time.process_time() - began) / updates
                share = world.share(model)
                limit = world.share_of(fixed_point(world, algorithm))
                sys.stderr.write(f"{algorithm}, seed {seed}: {share:.4f}\n")
                yield algorithm, seed, share, limit, spent


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


def pair_accuracy(world: World, rewards: Rewards) -> float:
    """Return how often two answers of the start are ranked as gold ranks them; ties of gold apart.

    A mean over users of a sum over all pairs of answers, each with its probability.
    """
    shares = []
    for user in USERS:
        weight = np.exp(world.reference[user])
        right = total = 0.0
        for k, gold in enumerate(GOLD[user]):
            better = np.sign(GOLD[user] - gold)
            ranked = np.sign(rewards[user] - rewards[user][k])
            pairs = weight[k] * weight * (better != 0)
            right += float(pairs @ ((1 + better * ranked) / 2))
            total += float(pairs.sum())
        shares.append(right / total)
    return float(np.mean(shares))


class Controlled(NamedTuple):
    """One scorer and what its policy earns, before and after: sums over all answers."""

    seed: int
    noise: float
    accuracy: float
    reward_before: float
    reward: float
    gold_before: float
    gold: float
    kl: float

    @property
    def misleads(self) -> bool:
        """Whether the reward rises while gold falls."""
        return self.reward > self.reward_before and self.gold < self.gold_before


def controlled(scorers: int, updates: int, seeds: Sequence[int]) -> list[list[Controlled]]:
    """Return what scorers of all strengths earn, seeds × scorers, each trained on once."""
    every = []
    for seed in seeds:
        with tempfile.TemporaryDirectory() as root:
            world = World(Path(root), seed, CONTROL_BETA)
            before, rows = world.load()[0], []
            for k, noise in enumerate(np.linspace(0, 1, scorers)):
                rewards = scorer(world, float(noise), seed=1000 * seed + k)
                recipe = recipe_of("ppo", updates, seed, beta=CONTROL_BETA)
                model = world.train(recipe, Path(root) / f"out-{k}", rewards).model
                gold = world.mean(model)
                rows.append(
                    Controlled(
                        seed, float(noise), pair_accuracy(world, rewards),
                        world.mean(before, rewards), world.mean(model, rewards),
                        world.mean(before), gold,
                        kl=(gold - world.value(log_probs(model))) / CONTROL_BETA,
                    )
                )  # fmt: skip
                sys.stderr.write(" ".join(f"{number:.3f}" for number in rows[-1][1:]) + "\n")
        every.append(rows)
    return every


def print_shares(told: Any) -> bool:
    """Print the first table; return whether every share reaches the bar."""
    algorithms = [told.algorithm] if told.algorithm else list(ALGORITHMS)
    rows = []
    for algorithm, seed, *numbers in shares(algorithms, told.seeds, told.updates or 200):
        share, limit, seconds = numbers
        rows.append((algorithm, str(seed), f"{share:.4f}", f"{limit:.4f}", f"{seconds:.3f}"))
    header = ["algorithm", "seed", "share of J* − J_ref", "at rest", "CPU s an update"]
    sys.stdout.write(render([Table("nearness to the best policy", header, rows)], Form.MARKDOWN))
    lowest = min(float(row[2]) for row in rows)
    sys.stdout.write(f"\nlowest share: {lowest} (bar {BAR})\n")
    return lowest >= BAR


def print_control(told: Any) -> bool:
    """Print the second table; return whether its three bars are reached."""
    seeds = range(told.first_seed, told.first_seed + told.seeds)
    every = controlled(told.scorers, told.updates or 60, seeds)
    means = [Controlled(*np.mean(rows, axis=0)) for rows in zip(*every, strict=True)]
    gained = [(row.accuracy, row.reward - row.reward_before, row.gold - row.gold_before)
              for row in means]  # fmt: skip
    tau = kendall_agreement([row[0] for row in gained], [row[2] for row in gained])
    misled = [row for rows in every for row in rows if row.misleads]
    header = ["noise", "accuracy", "gain in reward", "in gold", "KL"]
    cells = [[f"{number:.3f}" for number in (row.noise, *gains, row.kl)]
             for row, gains in zip(means, gained, strict=True)]  # fmt: skip
    wrong = ["seed", "noise", "accuracy", "reward before", "after", "gold before", "after"]
    sys.stdout.write(render([
        Table("PPO on scorers of many strengths", header, cells),
        Table("reward rises, gold falls", wrong,
              [[str(row.seed), *(f"{number:.3f}" for number in row[1:-1])] for row in misled]),
    ], Form.MARKDOWN))  # fmt: skip
    low, value = tau.interval.low or 0.0, tau.value or 0.0
    sys.stdout.write(
        f"\nKendall's τ of accuracy and gain in gold: {value:.3f} [{low:.3f}, "
        f"{tau.interval.high or 1:.3f}] over {tau.n} scorers, means of seeds {seeds[0]} to "
        f"{seeds[-1]} (bars: τ {TAU_BAR}, lower end {LOW_BAR})\n"
        f"policies whose reward rises while gold falls: {len(misled)} (bar 1)\n"
    )
    return value >= TAU_BAR and low > LOW_BAR and bool(misled)


def main() -> int:
    """Print one of the two; return 1 where a bar is not reached."""
    parser = argparse.ArgumentParser(description="PPO, RLOO and GRPO against an exact optimum")
    parser.add_argument("--algorithm", choices=list(ALGORITHMS), help="by default all three")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--updates", type=int)
    parser.add_argument("--control", action="store_true")
    parser.add_argument("--first-seed", type=int, default=30, help="of --control")
    parser.add_argument("--scorers", type=int, default=20)
    told = parser.parse_args()
    torch.set_num_threads(1)
    transformers.utils.logging.disable_progress_bar()
    return int(not (print_control if told.control else print_shares)(told))


if __name__ == "__main__":
    sys.exit(main())
