"""A policy trained on a scorer's reward, and what held-out users get of it."""

from palate.downstream.policy_training.algorithms import PolicyTraining
from palate.downstream.policy_training.ppo import ppo
from palate.downstream.policy_training.result import PolicyTrainingResult
from palate.downstream.policy_training.settings import EvaluationOptions, RewardOptions

__all__ = [
    "EvaluationOptions",
    "PolicyTraining",
    "PolicyTrainingResult",
    "RewardOptions",
    "ppo",
]
