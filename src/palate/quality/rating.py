"""The quality of every sample: each (row, text) is rated once, and kept."""

from __future__ import annotations

from collections import Counter
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from palate.answers.samples import Samples
from palate.benchmarks import Dataset
from palate.errors import EndpointError
from palate.evaluation import Work
from palate.quality.protocol import QualityMetric, QualityScore, QuestionResponse
from palate.records import Question
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


def rate_samples(
    quality: QualityMetric,
    samples: Samples,
    pairs: Dataset,
    work: Work,
    label: str | None = None,
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
    unread: list[str] = []
    for key in answered:
        earlier = documents.get_json(key)
        if earlier is not None:
            rated = QualityScore.model_validate(earlier)
            if rated.value is not None or not work.retry_unscored:
                scores[key] = rated
            else:
                unread.append(key)
    known = {*scores, *unread}
    new = [key for key in answered if key not in known]
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
        lost = sum(one.outage for one in scores.values())
        raise EndpointError(
            f"{quality.spec}: {lost} of {len(answered)} answers were not rated "
            f"({'; '.join(sorted(outages))}); what came is kept, run the same command again"
        )
    ratings = [[scores[key] for key in of_row] for of_row in keys]
    values = np.full((len(keys), samples.n), np.nan)
    for k, of_row in enumerate(ratings):
        if of_row:
            values[k] = np.array([rating.value for rating in of_row], dtype=np.float64)
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
