"""A scorer's scores of every sample: wide slates, the passes of an evaluation, back to rows."""

from palate.answers.scores.combine_passes import NOTHING_SHOWN
from palate.answers.scores.result import SampleScores
from palate.answers.scores.scoring import plan_cells, score_samples

__all__ = ["NOTHING_SHOWN", "SampleScores", "plan_cells", "score_samples"]
