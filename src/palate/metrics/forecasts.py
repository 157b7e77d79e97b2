"""Forecasts of best of k, from a run's margins and scores of unrated answers.

Formulas, both models of skill and how often they cover: `docs/statistics.md#forecasts`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln, ndtr, ndtri, stdtrit

from palate.metrics.accuracy import TIED
from palate.metrics.arrays import FloatArray
from palate.metrics.clusters import Clusters
from palate.metrics.estimates import Estimate
from palate.metrics.means import clustered_mean, scored, unbounded
from palate.metrics.ranks import ranks_of
from palate.metrics.selection import best_of

UPPER = 0.95
Z = float(ndtri(UPPER))
X = np.linspace(0.0, 12.0, 12001)


@dataclass(frozen=True, slots=True)
class Skill:
    """Correlation of score and quality over a policy's answers, and its 90 % interval."""

    value: float
    by_ranks: float
    """As if the benchmark's pairs were as far apart as the policy's answers."""
    by_spread: float
    """As if they were chosen far apart, and a score's noise were as large in both."""
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class ForecastShare:
    """Share of the best possible gain that picks are expected to reach; its 90 % interval."""

    k: int
    value: float | None
    """None without a row, or couple, that has k scored samples."""
    low: float | None = None
    high: float | None = None
    attainable: float | None = None
    """The share where skill is 1; 0 where no pick depends on what counts."""


def forecast_shares(
    margins: FloatArray,
    clusters: Clusters,
    scores: FloatArray,
    ks: Sequence[int],
    mirrored: FloatArray | None = None,
) -> tuple[Skill, tuple[ForecastShare, ...]]:
    """Return the skill that margins of rows show, and the share that picks by scores reach.

    Scores have shape (rows, N); NaN is no score. With `mirrored`, the scores of the same samples
    for the other user, all is of couples. Raises `UsageError` for a k above N; k is 2 or more.

    >>> margins, rows = np.linspace(-1.0, 2.0, 40), Clusters.of(range(40))
    >>> r, (best,) = forecast_shares(margins, rows, np.tile(np.arange(8.0), (40, 1)), [4])
    >>> round(r.value, 2), round(best.value, 2), round(best.low, 2), round(best.high, 2)
    (0.8, 0.8, 0.33, 0.94)
    """
    differing = scores if mirrored is None else scores - mirrored
    known = ~np.isnan(differing)
    n = np.maximum(known.sum(axis=1, keepdims=True), 2)
    z = np.where(known, differing - np.nansum(differing, axis=1, keepdims=True) / n, 0.0)
    squares = (z**2).sum(axis=1, keepdims=True)
    r = _skill(margins, clusters, 2 * float(np.mean(squares / (n - 1))))
    z *= np.sqrt(2) * np.exp(gammaln(n / 2) - gammaln((n - 1) / 2))  # by an unbiased deviation
    z = np.divide(z, np.sqrt(squares), out=np.zeros_like(z), where=squares > 0)

    def taken(k: int) -> FloatArray:
        if mirrored is None:
            return _picks(scores, k) - _picks(scores, 1)
        own, other = (_picks(np.where(known, side, np.nan), k) for side in (scores, mirrored))
        return (own - other) / 2

    return r, tuple(_share(r, k, taken(k), z, clusters) for k in ks)


def _skill(margins: FloatArray, clusters: Clusters, spread: float) -> Skill:
    m, known = scored(margins, clusters)
    g = np.sign(m) * ndtri((1 + ranks_of(np.abs(m)) / (m.size + 1)) / 2) * (np.abs(m) > TIED)
    g *= math.sqrt(math.pi / 2 / max(float(np.mean(g**2)), 1e-300))
    ranks = clustered_mean(g, known, null=0.0, bounds=(-unbounded(g), unbounded(g)))
    left = (m - m.mean()) ** 2
    noise = clustered_mean(left, known, null=0.0, bounds=(0.0, unbounded(left)))

    def by_spread(side: int) -> float:
        ratio = ((noise.value or 0.0) + side * _half(noise)) / spread if spread else 1.0
        return float(np.sign(m.mean())) * math.sqrt(max(0.0, 1 - ratio))

    first, second = min(1.0, max(-1.0, ranks.value or 0.0)), by_spread(0)
    if ranks.se is None:
        return Skill((first + second) / 2, first, second)
    low, high = (min(1.0, max(-1.0, first + side * _half(ranks))) for side in (-1, 1))
    low, high = (min(low, by_spread(1)), high) if first >= 0 else (low, max(high, by_spread(1)))
    return Skill((first + second) / 2, first, second, low, high)


def _half(of: Estimate) -> float:
    return 0.0 if of.se is None or of.df is None else float(stdtrit(of.df, UPPER)) * of.se


def _share(r: Skill, k: int, taken: FloatArray, z: FloatArray, clusters: Clusters) -> ForecastShare:
    counts = ~np.isnan(taken).any(axis=1)
    d, n = taken[counts], int(counts.sum())
    if not n:
        return ForecastShare(k, None)
    scale = n * float(np.trapezoid(1 - ndtr(X) ** k - ndtr(-X) ** k, X))  # n E_k
    most = min(1.0, max(-1.0, float((d * z[counts]).sum()) / scale))
    share = r.value * most
    if r.low is None or r.high is None:
        return ForecastShare(k, share, attainable=most)
    questions = np.arange(counts.size) if clusters.questions is None else clusters.questions
    together = np.zeros((int(questions.max()) + 1, d.shape[1]))
    np.add.at(together, questions[counts], d)
    left = max(float((together**2).sum()), float((d**2).sum())) * (1 - r.value**2) / scale**2
    ends = sorted((r.low * most, r.high * most))
    below, above = (math.hypot(end - share, Z * math.sqrt(left)) for end in ends)
    return ForecastShare(k, share, max(-1.0, share - below), min(1.0, share + above), most)


def _picks(scores: FloatArray, k: int) -> FloatArray:
    """Return the chance of each sample to be the best of k; NaN for rows with fewer."""
    return np.hstack([best_of(scores, one + 0 * scores, [k]) for one in np.eye(scores.shape[1])])
