"""Learning curves: what personal models gain from each further choice of a user."""

from palate.uses.learning_curve.learning_curve import FIXED, REPEATS, SHOTS, learning_curve
from palate.uses.learning_curve.points import LearningCurve, Point, Shots

__all__ = [
    "FIXED",
    "REPEATS",
    "SHOTS",
    "LearningCurve",
    "Point",
    "Shots",
    "learning_curve",
]
