"""Thin recipes that train a reward model on users' choices; users to leave out are an argument."""

from palate.training.classifier import TrainedClassifier, train_classifier
from palate.training.output import new_folder

__all__ = ["TrainedClassifier", "new_folder", "train_classifier"]
