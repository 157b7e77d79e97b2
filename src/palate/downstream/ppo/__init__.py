"""Policies trained on a reward: PPO on TRL's trainer, beside TRL's own RLOO and GRPO."""

from palate.downstream.ppo.algorithms import ALGORITHMS, build_trainer, last_checkpoint
from palate.downstream.ppo.recipe import Algorithm, PolicyTraining

__all__ = ["ALGORITHMS", "Algorithm", "PolicyTraining", "build_trainer", "last_checkpoint"]
