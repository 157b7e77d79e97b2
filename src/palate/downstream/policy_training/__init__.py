"""A policy trained on a scorer's reward, and what held-out users get of it."""

from palate.downstream.policy_training.ppo import ppo
from palate.downstream.policy_training.result import PolicyTrainingResult

__all__ = ["PolicyTrainingResult", "ppo"]
