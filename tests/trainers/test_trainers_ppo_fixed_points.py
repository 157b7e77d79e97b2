"""Where an algorithm comes to rest (`tools/ppo_fixed_points.py`): its mean gradient there is 0.

The gradients are those of the algorithms' losses, summed over every answer with its probability, by
automatic differentiation of a policy that has a free logit for every token in every state.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from ppo_runs import ANSWERS, GOLD, USERS, World, fixed_point, prefix_probabilities

from palate.trainers.algorithms import Algorithm

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


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("world"))


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
