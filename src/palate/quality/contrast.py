"""Contrast: an answer's quality for this user less its quality for their mirror.

On mirrored couples two users ask the same and want the opposite. With v_u the quality of an answer
for user u and v_m that for the mirrored user, its contrast is

    (1 + v_u − v_m) / 2

from 0 to 1. What is good for anybody drops out. A scorer that is blind to the user hands both users
of a couple the same pick, one's contrast is 1 minus the other's, and their mean exactly ½: the law
of mirrored couples, one step further down. So figures of contrasts are over couples, with the
interval that mirrored accuracy has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from palate.answers.samples import Samples
from palate.benchmarks import Dataset
from palate.errors import UsageError
from palate.evaluation import Work
from palate.quality.protocol import QualityMetric
from palate.quality.rating import SampleQuality, rate_samples


def check_mirrored(pairs: Dataset) -> None:
    """Raise `UsageError` where not every row stands in a mirrored couple."""
    if not pairs.mirrored:
        raise UsageError(
            f"{pairs.name}: a contrast needs mirrored couples, two users who ask the same and want "
            "the opposite; --mirrors only takes those there are"
        )


def rate_by_all(
    measures: Sequence[QualityMetric],
    samples: Samples,
    pairs: Dataset,
    work: Work,
    *,
    contrast: bool,
    of: str = "",
) -> list[SampleQuality]:
    """Return the samples' quality by every measure; with `contrast` each again, as a contrast.

    `of` ends the labels of progress. Raises as `rate_samples` and `contrast_samples`.
    """
    rated = [
        rate_samples(measure, samples, pairs, work, f"{measure.spec}{of}") for measure in measures
    ]
    if not contrast:
        return rated
    return rated + [
        contrast_samples(measure, quality, samples, pairs, work, of)
        for measure, quality in zip(measures, rated, strict=True)
    ]


def contrast_samples(
    quality: QualityMetric,
    rated: SampleQuality,
    samples: Samples,
    pairs: Dataset,
    work: Work,
    of: str = "",
) -> SampleQuality:
    """Return the contrast of every sample, given its quality for the row's own user.

    Ratings for the mirrored user are kept as all others are; where both users of a couple share
    their samples, nothing is rated anew.

    Raises as `check_mirrored` and `rate_samples`.
    """
    check_mirrored(pairs)
    number = {pair.id: k for k, pair in enumerate(pairs.pairs)}
    mirrors = tuple(number[str(pair.mirror_of)] for pair in pairs.pairs)
    mirrored = replace(pairs, rows=tuple(pairs.pairs[k] for k in mirrors))
    label = f"{quality.spec} for the mirrored user{of}"
    reverse = rate_samples(quality, samples, mirrored, work, label)
    mirrored_reasons = {f"{why} (for the mirrored user)": n for why, n in reverse.reasons.items()}
    return SampleQuality(
        quality=f"contrast of {rated.quality}",
        surrogate=rated.surrogate,
        values=(1 + rated.values - reverse.values) / 2,
        reasons=rated.reasons | mirrored_reasons,
        mirrors=mirrors,
    )
