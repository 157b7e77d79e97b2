"""What a scorer says of every sample: wide slates, the passes of an evaluation, back to rows."""

from palate.downstream.scores.result import SampleScores
from palate.downstream.scores.scoring import plan_cells, score_samples

__all__ = ["SampleScores", "plan_cells", "score_samples"]
