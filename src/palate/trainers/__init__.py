"""Policies trained on a reward: recipes, TRL's trainers, held-out users, exports to others."""

from palate.trainers.algorithms import PolicyTraining
from palate.trainers.held_out import (
    RUN,
    HeldOutAnswer,
    HeldOutAnswers,
    HeldOutRow,
    UserSplit,
    hold_out,
    refuse_shared,
    share_copied,
)
from palate.trainers.plan import NO_STRANGER, EvaluationOptions, RewardOptions, read_policy
