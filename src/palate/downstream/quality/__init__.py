"""How good a response is to the one who asked: measures that read the row's gold."""

from palate.downstream.quality.build import build_qualities, build_quality
from palate.downstream.quality.contrast import check_mirrored, contrast_samples, rate_by_all
from palate.downstream.quality.protocol import QualityMetric, QualityScore, QuestionResponse
from palate.downstream.quality.rating import SampleQuality, rate_samples

__all__ = [
    "QualityMetric",
    "QualityScore",
    "QuestionResponse",
    "SampleQuality",
    "build_qualities",
    "build_quality",
    "check_mirrored",
    "contrast_samples",
    "rate_by_all",
    "rate_samples",
]
