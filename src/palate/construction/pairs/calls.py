"""The most calls of a build, by role."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from palate.construction.checks.gap import NULL, NULL_GAPS
from palate.construction.checks.sight import LEAST
from palate.construction.pairs.drafts import PairDraft
from palate.construction.pairs.options import PairsOptions
from palate.evaluation import Work
from palate.quality import RubricJudge, build_qualities
from palate.scorers import is_baseline

MOST_ASPECTS, TRIALS = 6, 3
"""Aspects that a reader is asked for; sorts of answers that a blind scorer is tried on."""


def most_calls(drafts: Sequence[PairDraft], options: PairsOptions, work: Work) -> dict[str, int]:
    """Return the calls by role; a sample is one call, and so is each order of two answers."""
    questions = [question for draft in drafts for question in draft.questions]
    aspects = [len(question.gold.aspects) for question in questions]
    judged = 0
    if options.blind and not is_baseline(options.blind):
        judged += 2 * (len(questions) + TRIALS * min(LEAST, len(questions)))
    if options.adherence and drafts:
        (measure,) = build_qualities([options.adherence], work.session, work.settings)
        if isinstance(measure, RubricJudge):  # both answers, own and third rubrics, then two posts
            draws = ceil(NULL_GAPS / len(drafts)) if options.gap.startswith(NULL) else 1
            judged += 2 * len(questions) * (draws + 2) * max(n or MOST_ASPECTS for n in aspects)
    return {
        "reader": aspects.count(0) * options.attempts,
        "writer": 2 * len(drafts) * options.drafts,
        "judge": judged,
    }
