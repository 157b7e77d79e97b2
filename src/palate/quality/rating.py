"""The quality of every sample, each (row, text) rated once and kept; and its contrasts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from palate.answers.samples import Samples
from palate.benchmarks import Dataset
from palate.errors import EndpointError, UsageError
from palate.evaluation import Work
from palate.metrics.arrays import row_means
from palate.quality.measure import QualityMetric, QualityScore, QuestionResponse, build_quality
from palate.records import Question
from palate.records.arguments import listed
from palate.seeding import digest


@dataclass(frozen=True)
class SampleQuality:
    """What one measure makes of the samples."""

    quality: str
    """Canonical spec."""
    surrogate: bool
    values: NDArray[np.float64]
    """rows × N in [0, 1]; NaN where unscored."""
    reasons: dict[str, int]
    """Why samples have no value."""
    mirrors: tuple[int, ...] | None = None
    """Of a contrast, the number of each row's mirrored row."""

    @cached_property
    def means(self) -> NDArray[np.float64]:
        """The mean of each row's samples."""
        return row_means(self.values)


def rate_samples(
    quality: QualityMetric, samples: Samples, pairs: Dataset, work: Work, label: str | None = None
) -> SampleQuality:
    """Return the quality of every sample for the user of its row.

    Ratings are kept in the work's store as they come, by measure, row and text; where the work is
    to retry what is unscored, those without a value are asked for again, and not read from a cache.
    `label` is what the work's progress is called; by default the measure's spec.

    Raises:
        BenchmarkError: where rows lack what the measure needs.
        EndpointError: where an endpoint did not answer; what came is kept.
    """
    progress = work.start(label or quality.spec)
    quality.check(pairs.rows)
    documents = work.session.store.documents("qualities")
    keys, answered = _unique_responses(quality, samples, pairs)
    scores: dict[str, QualityScore] = {}
    new: list[str] = []
    unread: list[str] = []
    for key in answered:
        earlier = documents.get_json(key)
        if earlier is None:
            new.append(key)
            continue
        rated = QualityScore.model_validate(earlier)
        if rated.value is not None or not work.retry_unscored:
            scores[key] = rated
        else:
            unread.append(key)
    afresh = getattr(quality, "asked_afresh", nullcontext)
    outages: set[str] = set()
    for waiting, how in (new, nullcontext), (unread, afresh):
        with how():
            for k, rated in quality.rate([answered[key] for key in waiting]) if waiting else ():
                scores[waiting[k]] = rated
                if rated.outage:
                    outages.add(rated.reason or "no answer")
                else:
                    documents.put_json(waiting[k], rated.model_dump(mode="json"))
                progress(len(scores), len(answered))
    if outages:
        lost = sum(rated.outage for rated in scores.values())
        raise EndpointError(
            f"{quality.spec}: {lost} of {len(answered)} answers were not rated "
            f"({'; '.join(sorted(outages))}); what came is kept, run the same command again"
        )
    ratings = [[scores[key] for key in of_row] for of_row in keys]
    values = np.full((len(keys), samples.n), np.nan)
    for k, of_row in enumerate(ratings):
        numbers = [rating.value for rating in of_row]
        values[k, : len(of_row)] = np.array(numbers, dtype=np.float64)  # None becomes NaN
    every = (rating for of_row in ratings for rating in of_row)
    reasons = Counter(str(rating.reason) for rating in every if rating.value is None)
    return SampleQuality(quality.spec, quality.surrogate, values, dict(reasons))


def _unique_responses(
    quality: QualityMetric, samples: Samples, pairs: Dataset
) -> tuple[list[list[str]], dict[str, QuestionResponse]]:
    """Return the key of every sample, none of a row left out, and each different (row, text)."""
    answered: dict[str, QuestionResponse] = {}
    keys: list[list[str]] = []
    for k, (question, of_row) in enumerate(zip(pairs.rows, samples.of_row, strict=True)):
        row = digest(quality.fingerprint, gold_content(question))
        answers = () if k in samples.left_out else of_row
        keys.append([digest(row, sample.text) for sample in answers])
        for key, sample in zip(keys[-1], answers, strict=True):
            answered.setdefault(key, QuestionResponse(question, sample.text))
    return keys, answered


def gold_content(question: Question) -> str:
    """Return the hash of what a measure may read: a question and its gold."""
    gold = question.gold
    aspects = [aspect.model_dump(mode="json") for aspect in gold.aspects]
    return digest(question.key, gold.narrative, aspects, gold.reference)


def check_mirrored(pairs: Dataset) -> None:
    """Raise `UsageError` where not every row stands in a mirrored couple."""
    if not pairs.mirrored:
        raise UsageError(
            f"{pairs.name}: a contrast needs mirrored couples, two users who ask the same and want "
            "the opposite; --mirrors only takes those there are"
        )


def usable_qualities(
    given: str | QualityMetric | Iterable[str | QualityMetric],
    pairs: Dataset,
    work: Work,
    *,
    contrast: bool,
) -> list[QualityMetric]:
    """Return each measure once, built; raises as `build_quality`, `check_mirrored` and `check`."""
    named = {spec if isinstance(spec, str) else id(spec): spec for spec in listed(given)}
    measures = [build_quality(measure, work.session, work.settings) for measure in named.values()]
    if contrast:
        check_mirrored(pairs)
    for measure in measures:
        measure.check(pairs.rows)
    return measures


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
    rated = [rate_samples(m, samples, pairs, work, f"{m.spec}{of}") for m in measures]
    if not contrast:
        return rated
    by_measure = zip(measures, rated, strict=True)
    return rated + [contrast_samples(*quality, samples, pairs, work, of) for quality in by_measure]


def contrast_samples(
    quality: QualityMetric,
    rated: SampleQuality,
    samples: Samples,
    pairs: Dataset,
    work: Work,
    of: str = "",
) -> SampleQuality:
    """Return the contrast of every sample, given its quality for the row's own user.

    On mirrored couples two users ask the same and want the opposite. With v_u the quality of an
    answer for user u and v_m that for the mirrored user, its contrast is

        (1 + v_u − v_m) / 2

    from 0 to 1. What is good for anybody drops out. A scorer that is blind to the user hands both
    users of a couple the same pick, one's contrast is 1 minus the other's, and their mean exactly
    ½: the law of mirrored couples, one step further down. So figures of contrasts are over couples,
    with the interval that mirrored accuracy has.

    Ratings for the mirrored user are kept as all others are; where both users of a couple share
    their samples, nothing is rated anew. Raises as `check_mirrored` and `rate_samples`.
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
