"""What benchmarks are to foretell: answers picked among many, and how good they are."""

from palate.downstream.best_of_n import BestOf, Picked, best_of_n, sizes_up_to
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
    "BestOf",
    "Picked",
    "Policy",
    "Quality",
    "Rated",
    "Sample",
    "SampleScores",
    "Samples",
    "best_of_n",
    "build_policy",
    "build_quality",
    "contrast_samples",
    "draw_samples",
    "load_samples",
    "score_samples",
    "sizes_up_to",
]
