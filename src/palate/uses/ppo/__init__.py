"""A policy trained on a scorer's reward, and what held-out users get of it."""

from palate.uses.ppo.gain_fit import gain_at
from palate.uses.ppo.ppo import ppo
from palate.uses.ppo.result import (
    GainFit,
    PolicyEvaluation,
    PolicyTrainingResult,
    PolicyTrainingSummary,
    QualityGain,
    QualityLevel,
    TrainingGain,
)

__all__ = [
    "GainFit",
    "PolicyEvaluation",
    "PolicyTrainingResult",
    "PolicyTrainingSummary",
    "QualityGain",
    "QualityLevel",
    "TrainingGain",
    "gain_at",
    "ppo",
]
