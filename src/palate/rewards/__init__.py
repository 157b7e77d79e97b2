"""A scorer as a reward: one number for one answer and one user, on a stated scale."""

from palate.rewards.requests import (
    EMPTY,
    RatedResponse,
    RewardRequest,
    RewardValue,
    Scale,
    row_requests,
)
from palate.rewards.reward import Reward, reward
