"""Policies trained on a reward: PPO on TRL's trainer, beside TRL's own RLOO and GRPO."""

from palate.trainers.algorithms.recipe import Algorithm, PolicyTraining
from palate.trainers.algorithms.trainers import ALGORITHMS, build_trainer, last_checkpoint

__all__ = ["ALGORITHMS", "Algorithm", "PolicyTraining", "build_trainer", "last_checkpoint"]
