"""The world of `tools/ppo_world.py`, and runs in it that are small enough for tests."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

from ppo_fixed_points import fixed_point, prefix_probabilities
from ppo_optimum import controlled, pair_accuracy, scorer, shares
from ppo_world import ANSWERS, GOLD, PLACE, TOKENS, USERS, World, looked_up

from palate.trainers.algorithms import PolicyTraining

__all__ = [
    "ANSWERS", "GOLD", "PLACE", "TOKENS", "USERS", "World", "controlled", "fixed_point",
    "looked_up", "pair_accuracy", "prefix_probabilities", "same_weights", "scorer", "shares",
    "small",
]  # fmt: skip


def small(**told: Any) -> PolicyTraining:
    """Return a recipe for this world: 16 answers an update."""
    torch.set_num_threads(1)
    options: dict[str, Any] = {
        "updates": 6, "answers": 16, "answers_at_once": 16, "max_new_tokens": 4,
        "learning_rate": 3e-3, "kl_coefficient": 0.2, "save_every": None, "dtype": "float32",
        "answers_per_prompt": None,
    }  # fmt: skip
    if told.get("algorithm", "ppo") == "ppo":
        options |= {"value_learning_rate": 1e-2, "value_clip_range": None}
    return PolicyTraining(**{**options, **told})


def same_weights(one: Any, other: Any) -> bool:
    """Tell whether two modules hold the same numbers, to the bit."""
    first, second = one.state_dict(), other.state_dict()
    return first.keys() == second.keys() and all(torch.equal(first[k], second[k]) for k in first)
