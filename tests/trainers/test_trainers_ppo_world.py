"""The world of `tools/ppo_optimum.py`: its optimum is one, and its scorers are what they say.

And where an algorithm comes to rest (`tools/ppo_fixed_points.py`): its mean gradient there is 0.
The gradients are those of the algorithms' losses, summed over every answer with its probability, by
automatic differentiation of a policy that has a free logit for every token in every state.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from ppo_runs import (
    ANSWERS,
    GOLD,
    PLACE,
    TOKENS,
    USERS,
    World,
    fixed_point,
    looked_up,
    pair_accuracy,
    prefix_probabilities,
    scorer,
)  # fmt: skip

from palate.trainers.algorithms import Algorithm


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("world"))


def test_every_answer_is_listed_once() -> None:
    assert len(PLACE) == sum(7**n for n in range(4)) + 7**4 == 2_801
    assert {len(answer) for answer in PLACE} == {1, 2, 3, 4}
    assert all(0 not in answer[:-1] for answer in PLACE)


def test_tastes_by_hand() -> None:
    def liked(user: str, text: str, end: int = 1) -> float:
        ids = [TOKENS.index(word) for word in text.split()] + [0] * end
        return float(looked_up(GOLD)(completion_ids=[ids], user=[user])[0] or 0)

    assert liked("ann", "") == 0
    assert liked("ann", "hot tea") == pytest.approx(0.6 + 1.0 + 0.5)
    assert liked("ann", "tea hot") == pytest.approx(1.6)
    assert liked("ben", "cold coffee cold coffee", end=0) == pytest.approx(2 * 1.7 + 2 * 0.5)
    assert liked("ben", "hot tea ann") == pytest.approx(-1.3)


def test_no_policy_is_better_than_the_optimum(world: World) -> None:
    """π* ∝ π_ref exp(r / β) reaches J*; what lies between it and the start is less."""
    tilted = {user: world.reference[user] + GOLD[user] / world.beta for user in USERS}
    best = {user: it - np.logaddexp.reduce(it) for user, it in tilted.items()}
    assert world.value(best) == pytest.approx(world.optimum())
    assert world.value(world.reference) == pytest.approx(
        np.mean([np.exp(world.reference[user]) @ GOLD[user] for user in USERS])
    )
    assert world.share(world.load()[0]) == pytest.approx(0, abs=1e-9)
    stream = np.random.default_rng(0)
    for size in (0.1, 1.0):
        moved = {user: it + stream.normal(0, size, len(it)) for user, it in best.items()}
        moved = {user: it - np.logaddexp.reduce(it) for user, it in moved.items()}
        assert world.value(moved) < world.optimum() - 1e-4


def test_scorers_go_from_perfect_to_useless(world: World) -> None:
    levels = [0.0, 0.3, 0.5, 1.0]
    accuracy = [pair_accuracy(world, scorer(world, noise, seed=1)) for noise in levels]
    assert accuracy[0] == pytest.approx(1)
    assert accuracy == sorted(accuracy, reverse=True)
    assert accuracy[-1] == pytest.approx(0.5, abs=0.1)
    for user in USERS:
        weight = np.exp(world.reference[user])
        for rewards in (GOLD, scorer(world, 0.7, seed=2)):
            mean = weight @ rewards[user]
            spread = weight @ (rewards[user] - mean) ** 2
            assert mean == pytest.approx(weight @ GOLD[user])
            assert spread == pytest.approx(weight @ (GOLD[user] - weight @ GOLD[user]) ** 2)


Loss = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, float], torch.Tensor]


def kl_in_loss(
    log_probs: torch.Tensor, reference: torch.Tensor, rewards: torch.Tensor, beta: float
) -> torch.Tensor:
    """GRPO's (answers × tokens): ρ A less β ρ k3, at π_old = π, where clipping is idle."""
    ratios = (log_probs - log_probs.detach()).exp()
    k3 = (reference - log_probs).exp() - (reference - log_probs) - 1
    probabilities = log_probs.detach().sum(dim=1).exp()
    advantages = (rewards - probabilities @ rewards).unsqueeze(1)
    return -probabilities @ (ratios * advantages - beta * ratios * k3).sum(dim=1)


def kl_in_reward(
    log_probs: torch.Tensor, reference: torch.Tensor, rewards: torch.Tensor, beta: float
) -> torch.Tensor:
    """RLOO's, and PPO's with λ = 1: the advantage of an answer holds all of its KL."""
    less_kl = rewards - beta * (log_probs - reference).detach().sum(dim=1)
    probabilities = log_probs.detach().sum(dim=1).exp()
    return -probabilities @ ((less_kl - probabilities @ less_kl) * log_probs.sum(dim=1))


def largest_gradient(loss: Loss, policy: np.ndarray, world: World, user: str) -> float:
    """Return the largest slope of a loss along the logit of any token in any state."""
    tables = []
    for log_probs in (policy, world.reference[user]):
        masses = prefix_probabilities(log_probs)
        tables.append({
            prefix: float(np.log(mass / masses[prefix[:-1]]))
            for prefix, mass in masses.items() if prefix
        })  # fmt: skip
    places = {prefix: k for k, prefix in enumerate(tables[0])}
    states = {state: k for k, state in enumerate({prefix[:-1]: 0 for prefix in places})}
    logits = torch.tensor(list(tables[0].values()), dtype=torch.float64, requires_grad=True)
    state_of = torch.tensor([states[prefix[:-1]] for prefix in places])
    totals = torch.zeros(len(states), dtype=torch.float64).index_add(0, state_of, logits.exp())
    normal = torch.cat([logits - totals.log()[state_of], torch.zeros(1, dtype=torch.float64)])
    fixed = torch.tensor([*tables[1].values(), 0.0], dtype=torch.float64)
    tokens = torch.tensor([
        [places[answer[:k]] if k <= len(answer) else len(places) for k in range(1, 5)]
        for answer in ANSWERS
    ])  # fmt: skip
    rewards = torch.tensor(GOLD[user])
    loss(normal[tokens], fixed[tokens], rewards, world.beta).backward()
    assert logits.grad is not None
    return float(logits.grad.abs().max())


@pytest.mark.parametrize(
    ("algorithm", "loss", "other"),
    [("grpo", kl_in_loss, kl_in_reward), ("rloo", kl_in_reward, kl_in_loss)],
)
def test_a_gradient_is_nothing_at_its_fixed_point_alone(
    world: World, algorithm: Algorithm, loss: Loss, other: Loss
) -> None:
    rests = fixed_point(world, algorithm)
    for user in USERS:
        assert largest_gradient(loss, rests[user], world, user) < 1e-9
        assert largest_gradient(other, rests[user], world, user) > 1e-3
        assert largest_gradient(loss, world.reference[user], world, user) > 1e-2


def test_kl_in_the_reward_rests_at_the_optimum_and_kl_in_the_loss_under_it(world: World) -> None:
    best = {user: world.reference[user] + GOLD[user] / world.beta for user in USERS}
    for algorithm in ("ppo", "rloo"):
        rests = fixed_point(world, algorithm)
        assert world.value(rests) == pytest.approx(world.optimum())
        for user in USERS:
            wanted = best[user] - np.logaddexp.reduce(best[user])
            np.testing.assert_allclose(rests[user], wanted, atol=1e-9)
    lower = world.value(fixed_point(world, "grpo"))
    assert world.value(world.reference) < lower < world.optimum() - 1e-3
