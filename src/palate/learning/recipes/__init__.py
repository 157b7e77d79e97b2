"""Thin recipes over TRL: reward models from users' choices, planners from their rubrics."""

from palate.learning.recipes.autoregressive import train_autoregressive
from palate.learning.recipes.base import load_base
from palate.learning.recipes.classifier import train_classifier
from palate.learning.recipes.from_base import GROUP, STEPS, BaseMethod, BaseTask
from palate.learning.recipes.output import TrainedModel, new_folder
from palate.learning.recipes.overlap import refuse_overlap
from palate.learning.recipes.planner import encode, train_planner
from palate.learning.recipes.saving import saving
from palate.learning.recipes.tuning import Lora

__all__ = [
    "GROUP",
    "STEPS",
    "BaseMethod",
    "BaseTask",
    "Lora",
    "TrainedModel",
    "encode",
    "load_base",
    "new_folder",
    "refuse_overlap",
    "saving",
    "train_autoregressive",
    "train_classifier",
    "train_planner",
]
