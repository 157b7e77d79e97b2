"""A scorer as a reward: one number for one answer and one user, on a stated scale."""

from palate.rewards.completions import EMPTY
from palate.rewards.from_specs import reward
from palate.rewards.requests import RatedResponse, RewardRequest, row_requests
from palate.rewards.reward import Reward, RewardValue
from palate.rewards.scale import Scale

__all__ = [
    "EMPTY",
    "RatedResponse",
    "Reward",
    "RewardRequest",
    "RewardValue",
    "Scale",
    "reward",
    "row_requests",
]
