"""Best of k samples: what a scorer's picks are worth, from one set of N samples a question."""

from palate.metrics.selection.best_of import best_of, usable
from palate.metrics.selection.bounds import kl_bound, win_rate_bound
from palate.metrics.selection.curves import (
    BestOfCurve,
    BestOfPoint,
    best_of_curve,
)
from palate.metrics.selection.overoptimisation import OverOptimisation, over_optimisation

__all__ = [
    "BestOfCurve",
    "BestOfPoint",
    "OverOptimisation",
    "best_of",
    "best_of_curve",
    "kl_bound",
    "over_optimisation",
    "usable",
    "win_rate_bound",
]
