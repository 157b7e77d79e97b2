"""Best of n: the answers a scorer picks among many, and how good they are."""

from palate.uses.best_of_n.best_of_n import best_of_n, sizes_up_to
from palate.uses.best_of_n.result import BestOfResult, Selection

__all__ = ["BestOfResult", "Selection", "best_of_n", "sizes_up_to"]
