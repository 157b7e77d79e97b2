"""PPO, RLOO and GRPO come near to the best policy, which is known (`tools/ppo_optimum.py`)."""

from __future__ import annotations

import pytest
from ppo_runs import shares

from palate.downstream.policy_training.algorithms import ALGORITHMS, Algorithm

pytest.importorskip("trl")


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_best_policy_is_nearly_reached(algorithm: Algorithm) -> None:
    ((_, _, share, limit, _),) = shares([algorithm], seeds=1, updates=200)
    assert 0.98 < share < 1
    assert share < limit + 0.005  # where its mean gradient is nothing
