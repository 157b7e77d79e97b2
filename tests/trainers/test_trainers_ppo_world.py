"""The world of `tools/ppo_optimum.py`: its optimum is one, and its scorers are what they say."""

from __future__ import annotations

import numpy as np
import pytest
from ppo_runs import GOLD, PLACE, TOKENS, USERS, World, looked_up, pair_accuracy, scorer


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
