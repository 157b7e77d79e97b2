"""What benchmarks are to foretell: answers picked among many, and how good they are."""

from palate.downstream.best_of_n import BestOf, Picked, best_of_n, check_sizes, sizes_up_to
from palate.downstream.contrast import check_mirrored, contrast_samples
from palate.downstream.drawing import draw_samples, shown_to_policy
from palate.downstream.policies import Policy, Sample, build_policy
from palate.downstream.quality import Answered, Quality, Rated, build_quality
from palate.downstream.samples import Samples, check_number, load_samples
from palate.downstream.scoring import SampleScores, plan_cells, score_samples

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
