"""Learning curves: what personal models gain from each further choice of a user."""

from palate.curves.consensus import majority_of_others
from palate.curves.learning_curve import COUNTS, FIXED, REPEATS, learning_curve
from palate.curves.points import Count, Curves, Point

__all__ = [
    "COUNTS",
    "FIXED",
    "REPEATS",
    "Count",
    "Curves",
    "Point",
    "learning_curve",
    "majority_of_others",
]
