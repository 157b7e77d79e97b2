"""Thin recipes that train a reward model on users' choices; users to leave out are an argument."""

from palate.training.classifier import TrainedClassifier, train_classifier

__all__ = ["TrainedClassifier", "train_classifier"]
