"""What benchmarks are to foretell: answers picked among many, and how good they are."""

from palate.downstream.best_of_n import best_of_n, sizes_up_to
from palate.downstream.best_of_result import BestOfResult, BestOfRow, BestOfSummary, Selection
from palate.downstream.quality import Answered, Quality, Rated, build_quality, contrast_samples
from palate.downstream.sampling import (
    Policy,
    Sample,
    Samples,
    build_policy,
    draw_samples,
    load_samples,
)
from palate.downstream.scores import SampleScores, score_samples

__all__ = [
    "Answered",
    "BestOfResult",
    "BestOfRow",
    "BestOfSummary",
    "Policy",
    "Quality",
    "Rated",
    "Sample",
    "SampleScores",
    "Samples",
    "Selection",
    "best_of_n",
    "build_policy",
    "build_quality",
    "contrast_samples",
    "draw_samples",
    "load_samples",
    "score_samples",
    "sizes_up_to",
]
