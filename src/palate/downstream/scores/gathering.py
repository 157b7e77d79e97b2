"""What the passes of one scorer said, as one score for every sample."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from palate.downstream.sampling.samples import Samples
from palate.downstream.scores.slates import SampledRows
from palate.evaluation import Computation
from palate.execution import Results
from palate.records import NO_STRANGER, Judge, Scores

Doubles = NDArray[np.float64]
Said = dict[str, float | str]
"""Of each text of a row its score, or why it has none."""
NOTHING_SHOWN = "nothing shown"
NO_OPPONENT = "no other answer of the row that a judge could compare it with"
EMPTY = "empty, and no other answer of the row has a score"


def gather(
    work: Computation, sampled: SampledRows, samples: Samples, passes: Sequence[Results]
) -> tuple[Doubles, dict[str, int]]:
    """Return the score of every sample (rows × N; NaN where there is none) and why some have none.

    An empty answer is below all others of its row that have a score; where a row has empty answers
    only, they tie.
    """
    judged = isinstance(work.contestant, Judge)
    by_row = (_compared if judged else _scored)(work, sampled, passes)
    values = np.full((len(samples.rows), samples.n), np.nan)
    reasons: dict[str, int] = {}
    for row, own in enumerate(samples.of_row):
        said = by_row[row]
        known = [value for value in said.values() if not isinstance(value, str)]
        lowest = _below(known) if sampled.texts[row] else 0.0
        for at, one in enumerate(own):
            found = said.get(one.text, "no score") if one.text.strip() else lowest
            if isinstance(found, str):
                reasons[found] = reasons.get(found, 0) + 1
            else:
                values[row, at] = found
    return values, reasons


def _below(known: Sequence[float]) -> float | str:
    least = min(known, default=None)
    return EMPTY if least is None else least - max(1.0, abs(least))


def _scored(work: Computation, sampled: SampledRows, passes: Sequence[Results]) -> list[Said]:
    combine = getattr(work.contestant, "combine", None)
    found: list[dict[str, list[float]]] = [{} for _ in sampled.texts]
    why: list[dict[str, str]] = [{} for _ in sampled.texts]
    for k, (row, i, j) in enumerate(sampled.couples):
        both = sampled.texts[row][i], sampled.texts[row][j]
        unread = _unread(work, sampled, row, passes[0], k)
        if unread is not None:
            why[row] |= dict.fromkeys(both, unread)
            continue
        parts = [Scores(values=one[k].values, reasons=one[k].reasons) for one in passes]
        scores = combine(parts) if combine is not None else parts[0]
        for at, (text, value) in enumerate(zip(both, scores.values, strict=True)):
            if value is None:
                why[row][text] = scores.reason(at) or "no score"
            else:
                found[row].setdefault(text, []).append(value)
    return [
        {text: _mean(values) for text, values in own.items()} | lost
        for own, lost in zip(found, why, strict=True)
    ]


def _compared(work: Computation, sampled: SampledRows, passes: Sequence[Results]) -> list[Said]:
    margins = [np.zeros((len(texts), len(texts))) for texts in sampled.texts]
    why: list[dict[tuple[int, int], str]] = [{} for _ in sampled.texts]
    for k, (row, i, j) in enumerate(sampled.couples):
        said = passes[0][k]
        read = [value for value in said.values if value is not None]
        unread = _unread(work, sampled, row, passes[0], k)
        if unread is not None:
            why[row][i, j] = unread
        elif len(read) < len(said.values):
            why[row][i, j] = (said.reasons[0] if said.reasons else None) or "no judgement"
        else:
            margins[row][i, j] = sum(read) / len(read)
            margins[row][j, i] = -margins[row][i, j]
    return [_standing(*one) for one in zip(sampled.texts, margins, why, strict=True)]


def _standing(texts: Sequence[str], margins: Doubles, why: dict[tuple[int, int], str]) -> Said:
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
    found: Said = {}
    for k, text in enumerate(texts):
        if left[k] and left.sum() > 1:
            found[text] = _mean(margins[k, left & (np.arange(len(texts)) != k)])
        else:
            own = (reason for couple, reason in why.items() if k in couple)
            found[text] = next(own, NO_OPPONENT)
    return found


def _unread(
    work: Computation, sampled: SampledRows, row: int, results: Results, k: int
) -> str | None:
    if sampled.rows.no_stranger[row]:
        return NO_STRANGER
    needs_shown = work.traits_of(work.terms[0]).needs_shown
    return (
        NOTHING_SHOWN
        if needs_shown and not (sampled.rows.parts[row] and results[k].parts)
        else None
    )


def _mean(values: Sequence[float] | Doubles) -> float:
    return float(np.float32(np.mean(values)))
