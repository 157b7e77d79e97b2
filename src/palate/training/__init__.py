"""Thin recipes over TRL: reward models from users' choices, planners from their rubrics."""

from palate.training.classifier import TrainedClassifier, train_classifier
from palate.training.output import new_folder
from palate.training.planner import TrainedPlanner, train_planner
from palate.training.tuning import Lora

__all__ = [
    "Lora",
    "TrainedClassifier",
    "TrainedPlanner",
    "new_folder",
    "train_classifier",
    "train_planner",
]
