"""A scorer as a reward: one number for one answer and one user, on a stated scale."""

from palate.downstream.rewards.build import reward
from palate.downstream.rewards.requests import RatedResponse, RewardRequest
from palate.downstream.rewards.reward import Reward, RewardValue
from palate.downstream.rewards.scale import Scale

__all__ = ["RatedResponse", "Reward", "RewardRequest", "RewardValue", "Scale", "reward"]
