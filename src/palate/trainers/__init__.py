"""Policies trained on a reward: recipes, TRL's trainers, held-out users, exports to others."""

from palate.trainers.algorithms import PolicyTraining
from palate.trainers.plan import NO_STRANGER
from palate.trainers.reward_function import TrainingReward
from palate.trainers.settings import EvaluationOptions, RewardOptions, read_policy
from palate.trainers.split import UserSplit, hold_out, refuse_shared

__all__ = [
    "NO_STRANGER",
    "EvaluationOptions",
    "PolicyTraining",
    "RewardOptions",
    "TrainingReward",
    "UserSplit",
    "hold_out",
    "read_policy",
    "refuse_shared",
]
