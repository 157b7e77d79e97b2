"""What benchmarks are to foretell: answers picked among many, and how good they are."""

from palate.downstream.best_of_n import best_of_n, check_sizes, sizes_up_to
from palate.downstream.best_of_result import BestOfResult, BestOfRow, BestOfSummary, Selection
from palate.downstream.quality import (
    Answered,
    Quality,
    Rated,
    build_quality,
    check_mirrored,
    contrast_samples,
)
from palate.downstream.sampling import (
    Policy,
    Sample,
    Samples,
    build_policy,
    check_number,
    draw_samples,
    load_samples,
    shown_to_policy,
)
from palate.downstream.scores import SampleScores, plan_cells, score_samples

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
    "check_mirrored",
    "check_number",
    "check_sizes",
    "contrast_samples",
    "draw_samples",
    "load_samples",
    "plan_cells",
    "score_samples",
    "shown_to_policy",
    "sizes_up_to",
]
