"""PPO, RLOO and GRPO come near to the best policy, which is known (`tools/ppo_optimum.py`)."""

from __future__ import annotations

import pytest
from ppo_runs import controlled, shares

from palate.trainers.algorithms import ALGORITHMS, Algorithm

pytest.importorskip("trl")


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_best_policy_is_nearly_reached(algorithm: Algorithm) -> None:
    ((_, _, share, limit, _),) = shares([algorithm], seeds=1, updates=120)
    assert 0.98 < share < 1
    assert share < limit + 0.005  # where its mean gradient is nothing


def test_gold_trains_a_better_policy_than_a_scorer_that_knows_nothing() -> None:
    (rows,) = controlled(scorers=2, updates=40, seeds=[3])
    right, useless = rows
    assert (right.accuracy, right.gold) == pytest.approx((1, right.reward))
    assert abs(useless.accuracy - 0.5) < 0.1
    assert right.gold - right.gold_before > 5 * abs(useless.gold - useless.gold_before)
    assert useless.reward > useless.reward_before and useless.kl > 0.05
    assert right.misleads is False
    assert useless.misleads == (useless.gold < useless.gold_before)
