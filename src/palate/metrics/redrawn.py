"""Tests of many draws of the same rows at once: the means and p of `jackknife`, draw by draw.

Draws differ in their values alone; which rows are scored, and how they are clustered, is the same.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array
from scipy.special import ndtr, stdtr

from palate.metrics.arrays import FloatArray, IntArray
from palate.metrics.clusters import Clusters, Columns, added, effective_number, n_clusters
from palate.metrics.estimates import GAIN, ROUNDING
from palate.metrics.jackknife import parts_of_variance
from palate.metrics.paired import EXACT_UP_TO, all_signs


def redrawn_tests(differences: FloatArray, clusters: Clusters) -> tuple[FloatArray, FloatArray]:
    """Mean of each draw's differences and its p against 0, as `clustered_mean` gives them.

    Shapes (draws, rows) in, (draws,) out; unscored rows are left out before. p is NaN where a mean
    has no interval.

    >>> draws = np.array([[1.0, 0, 0, 1], [0.0, 0, 0, 0]])
    >>> means, p = redrawn_tests(draws, Clusters.of("abcd"))
    >>> means.tolist(), p.round(3).tolist()
    ([0.5, 0.0], [0.182, 1.0])
    """
    n = differences.shape[1]
    if not n:
        return np.full(len(differences), np.nan), np.full(len(differences), np.nan)
    means, weights = differences.mean(axis=1), np.ones(n)
    apart = differences - means[:, None]
    width = GAIN[1] - GAIN[0]
    constant = np.abs(apart).max(axis=1) <= ROUNDING * width
    sides = [clusters.users] + ([] if clusters.items is None else [clusters.items.counted])
    effective = min(effective_number(columns, weights) for columns in sides)
    variance = _variance(apart, clusters, weights)
    p = np.full(len(means), np.nan)
    usable = ~constant & (variance > (ROUNDING * width) ** 2) & (effective > 2)
    size = np.abs(means[usable]) / np.sqrt(variance[usable])
    p[usable] = np.minimum(1.0, 2 * stdtr(effective - 1, -size))
    p[constant & (np.abs(means) <= ROUNDING * width)] = 1.0
    # Rule 3 of `estimates`: all alike and at an end.
    p[constant & (np.abs(means) >= 1 - ROUNDING * width)] = min(1.0, 2 * 0.5**effective)
    return means, p


def redrawn_sign_flips(differences: FloatArray, users: IntArray) -> tuple[FloatArray, FloatArray]:
    """Mean of each draw's differences and its p of signs flipped by user.

    Up to 12 users all signs are enumerated; beyond, the sum under random signs is taken as normal:
    ``p = 2 Φ(-(|Σ D_u| - g) / √(Σ D_u²))``, g half the step from one sum to the next.

    >>> means, p = redrawn_sign_flips(np.ones((1, 4)), np.arange(4))
    >>> means.tolist(), p.tolist()
    ([1.0], [0.125])
    """
    if not differences.shape[1]:
        return np.full(len(differences), np.nan), np.full(len(differences), np.nan)
    by_user = _sums((users,), differences)
    means, total = differences.mean(axis=1), np.abs(by_user.sum(axis=0))
    tiny = ROUNDING * np.abs(by_user).sum(axis=0)
    if len(by_user) <= EXACT_UP_TO:
        flipped = np.abs(all_signs(len(by_user)) @ by_user)
        return means, np.asarray(np.mean(flipped >= total - tiny, axis=0))
    spread = np.sqrt(np.square(by_user).sum(axis=0))
    # Sums of whole verdicts go in steps of 2, of ties in steps of 1, of shares in none to speak of.
    whole, half = ((k * by_user == np.rint(k * by_user)).all(axis=0) for k in (1, 2))
    beyond = total - np.where(whole, 1.0, np.where(half, 0.5, 0.0))
    size = np.divide(beyond, spread, out=np.zeros_like(total), where=spread > 0)
    return means, np.asarray(np.minimum(1.0, 2 * ndtr(-size)))


def redrawn_holm(p: FloatArray) -> FloatArray:
    """Holm's adjustment of each draw's p-values, shape (draws, tests); NaN is not counted.

    >>> redrawn_holm(np.array([[0.01, np.nan, 0.04, 0.03]])).tolist()
    [[0.03, nan, 0.06, 0.06]]
    """
    order = np.argsort(p, axis=1, kind="stable")  # NaN last
    known = np.count_nonzero(~np.isnan(p), axis=1, keepdims=True)
    left = known - np.arange(p.shape[1])
    stepped = np.minimum(1.0, np.take_along_axis(p, order, axis=1) * left)
    adjusted = np.empty_like(p)
    np.put_along_axis(adjusted, order, np.maximum.accumulate(stepped, axis=1), axis=1)
    return adjusted


def _variance(apart: FloatArray, clusters: Clusters, weights: FloatArray) -> FloatArray:
    # V of `jackknife`, of each draw; NaN where one cluster holds all.
    total = float(weights.sum())

    def squares(columns: Columns, scale: FloatArray | float) -> FloatArray:
        left = total - added(columns, weights)
        factor = scale / np.where(left > ROUNDING * total, left, np.nan)
        return np.asarray(np.square(_sums(columns, apart) * np.c_[factor]).sum(axis=0))

    of_users, of_items, of_cells = parts_of_variance(squares, weights, clusters)
    return np.maximum(of_users, of_users + of_items - of_cells)


def _sums(columns: Columns, values: FloatArray) -> FloatArray:
    # Of each cluster and draw, shape (clusters, draws).
    size, n = n_clusters(columns), values.shape[1]
    rows = np.concatenate(columns)
    at = np.tile(np.arange(n), len(columns))
    return np.asarray(csr_array((np.ones(rows.size), (rows, at)), shape=(size, n)) @ values.T)
