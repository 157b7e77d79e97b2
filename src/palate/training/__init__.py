"""Thin recipes over TRL: reward models from users' choices, planners from their rubrics."""

from palate.training.autoregressive import train_autoregressive
from palate.training.classifier import train_classifier
from palate.training.output import TrainedModel, new_folder
from palate.training.planner import train_planner
from palate.training.tuning import Lora

__all__ = [
    "Lora",
    "TrainedModel",
    "new_folder",
    "train_autoregressive",
    "train_classifier",
    "train_planner",
]
