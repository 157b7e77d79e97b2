"""Measures of how good a response is to the one who asked: they read the row's gold."""

from palate.quality.measure import (
    QualityMetric,
    QualityScore,
    QuestionResponse,
    build_quality,
    require_aspects,
)
from palate.quality.overlap import Chrf
from palate.quality.rating import (
    SampleQuality,
    contrast_samples,
    gold_content,
    rate_by_all,
    rate_samples,
    usable_qualities,
)
from palate.quality.rubric_judge import RubricJudge, rubric_judge
