"""The passes of one scorer, joined to one score for every sample."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from palate.answers.samples import Samples
from palate.answers.scores.slates import TextRows
from palate.evaluation import BoundScorer, combined, void_reason
from palate.execution import Results
from palate.records import Judgement

Doubles = NDArray[np.float64]
ScoreByText = dict[str, float | str]
"""Of each text of a row its score, or why it has none."""
NOTHING_SHOWN = "nothing shown"
NO_OPPONENT = "no other answer of the row that a judge could compare it with"
EMPTY = "empty, and no other answer of the row has a score"


def gather(
    job: BoundScorer, sampled: TextRows, samples: Samples, passes: Sequence[Results]
) -> list[list[float | str]]:
    """Return the score of every sample, or why it has none (rows × N).

    An empty answer is below all others of its row that have a score; where a row has empty answers
    only, they tie.
    """
    rows = []
    for row, listed in enumerate(samples.of_row):
        texts = sampled.texts[row]
        if reason := void_reason(job, row, passes, row):
            by_text: ScoreByText = dict.fromkeys(texts, reason)
        elif job.judges:
            by_text = _compared(texts, passes[0].judgements(row))
        else:
            by_text = _scored(job, texts, row, passes)
        known = [value for value in by_text.values() if not isinstance(value, str)]
        lowest: float | str = 0.0 if not texts else EMPTY
        if known:
            lowest = min(known) - max(1.0, abs(min(known)))
        rows.append(
            [by_text.get(one.text, "no score") if one.text.strip() else lowest for one in listed]
        )
    return rows


def _scored(
    job: BoundScorer, texts: Sequence[str], row: int, passes: Sequence[Results]
) -> ScoreByText:
    scores = combined(job, passes, row)
    return {
        text: (scores.reason(k) or "no score") if value is None else float(np.float32(value))
        for k, (text, value) in enumerate(zip(texts, scores.values, strict=True))
    }


def _compared(texts: Sequence[str], judgements: Sequence[Judgement]) -> ScoreByText:
    margins = np.zeros((len(texts), len(texts)))
    why: dict[tuple[int, int], str] = {}
    both = combinations(range(len(texts)), 2)
    for (i, j), judgement in zip(both, judgements, strict=True):
        if judgement.margin is None:
            why[i, j] = judgement.reason or "no judgement"
        else:
            margins[i, j], margins[j, i] = judgement.margin, -judgement.margin
    return _standing(texts, margins, why)


def _standing(
    texts: Sequence[str], margins: Doubles, why: dict[tuple[int, int], str]
) -> ScoreByText:
    """Return each text's mean margin against the others that have a score.

    A mean over whatever happened to be read would hold texts to different opponents. So the texts
    with the most unread comparisons go, all that share that number, until every comparison among
    those left was read: one text that a judge cannot read costs no other text its score.
    """
    if len(texts) == 1:
        return {texts[0]: 0.0}  # nothing to compare it with
    unread = np.zeros((len(texts), len(texts)), dtype=bool)
    for i, j in why:
        unread[i, j] = unread[j, i] = True
    left = np.ones(len(texts), dtype=bool)
    while (counts := (unread & left).sum(axis=1) * left).any():
        left &= counts < counts.max()
    shares: ScoreByText = {}
    for k, text in enumerate(texts):
        if left[k] and left.sum() > 1:
            others = margins[k, left & (np.arange(len(texts)) != k)]
            shares[text] = float(np.float32(np.mean(others)))
        else:
            own = (reason for couple, reason in why.items() if k in couple)
            shares[text] = next(own, NO_OPPONENT)
    return shares
