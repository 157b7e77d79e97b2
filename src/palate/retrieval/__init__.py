"""Which of a user's posts, or past choices, matter for a question."""

from palate.retrieval.ordering import (
    Ordering,
    Ranked,
    Sorting,
    dense_by,
    drawn_by,
    latest_first,
    nearest_first,
    sorted_by,
)
from palate.retrieval.ranking import build_ranking

__all__ = [
    "Ordering",
    "Ranked",
    "Sorting",
    "build_ranking",
    "dense_by",
    "drawn_by",
    "latest_first",
    "nearest_first",
    "sorted_by",
]
