"""Measures of how good a response is to the one who asked: they read the row's gold."""

from palate.quality.contrast import check_mirrored, contrast_samples, rate_by_all
from palate.quality.from_spec import build_qualities, build_quality
from palate.quality.metric_base import require_aspects
from palate.quality.ngrams import Chrf
from palate.quality.protocol import QualityMetric, QualityScore, QuestionResponse
from palate.quality.rating import SampleQuality, gold_content, rate_samples
from palate.quality.rubric_judge import RubricJudge, rubric_judge

__all__ = [
    "Chrf",
    "QualityMetric",
    "QualityScore",
    "QuestionResponse",
    "RubricJudge",
    "SampleQuality",
    "build_qualities",
    "build_quality",
    "check_mirrored",
    "contrast_samples",
    "gold_content",
    "rate_by_all",
    "rate_samples",
    "require_aspects",
    "rubric_judge",
]
