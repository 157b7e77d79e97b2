"""Tests of paired differences by sign flips, tests of several at once, and of many draws at once.

Draws of the same rows differ in their values alone; which rows are scored, and how they are
clustered, is the same. Their means and p are those of `jackknife`, draw by draw.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array
from scipy.special import ndtr

from palate.metrics.arrays import FloatArray, Ids, IntArray, scored_rows, sums, vector
from palate.metrics.clusters import Clusters, Columns, added, n_clusters, parts_of_variance
from palate.metrics.estimates import GAIN, ROUNDING, Spread, interval

EXACT_UP_TO = 12
CHUNK = 1 << 21


def sign_flip_test(
    differences: ArrayLike, users: Ids, seed: int = 0, draws: int = 10_000
) -> float | None:
    """Two-sided sign-flip test of a mean difference, the signs flipped by user.

    Null hypothesis: every user's sum ``D_u`` is as likely ``-D_u``. The statistic is
    ``|Σ_u s_u D_u|``. Up to 12 users with a sum other than 0, all signs are enumerated and p is
    the share that reaches the observed value; beyond, ``p = (1 + hits) / (1 + draws)``.
    The sums are sorted by size first, so that neither the order of the rows nor the names of the
    users can change p. None without scored rows.

    >>> sign_flip_test([1, 1, 1, 1], ["a", "b", "c", "d"])
    0.125
    """
    d, codes, names = scored_rows(vector(differences), users)
    if draws < 1:
        raise ValueError("draws must be at least 1")
    if not d.size:
        return None
    return sign_flip_tests([sums(codes, d, len(names))], seed, draws)[0]


def sign_flip_tests(
    by_user: Sequence[FloatArray], seed: int = 0, draws: int = 10_000
) -> list[float]:
    """Sign-flip tests of several differences, given each user's sum; all share their signs.

    A test's p does not depend on the others: the k-th largest sum of every test has the k-th row
    of one matrix of signs, so all random tests are one product.

    >>> sign_flip_tests([np.ones(4), np.array([1.0, -1.0])])
    [0.125, 1.0]
    """
    observed = np.array([abs(float(each.sum())) for each in by_user])
    sizes = [np.sort(np.abs(each))[::-1] for each in by_user]
    tiny = np.array([ROUNDING * float(size.sum()) for size in sizes])
    sizes = [size[size > least] for size, least in zip(sizes, tiny, strict=True)]
    p = np.ones(len(sizes))
    drawn = [k for k, size in enumerate(sizes) if size.size > EXACT_UP_TO]
    for k, size in enumerate(sizes):
        if size.size <= EXACT_UP_TO:
            flipped = np.abs(all_signs(size.size) @ size)
            p[k] = np.mean(flipped >= observed[k] - tiny[k])
    if drawn:
        reached = _drawn(sizes, drawn, seed, draws) >= (observed - tiny)[drawn]
        p[drawn] = (1 + reached.sum(axis=0)) / (1 + draws)
    return [float(each) for each in p]


def smallest_sign_flip_p(users: int) -> float:
    """Smallest p that ``sign_flip_test`` can give with so many users: ``2^(1 - U)``, all alike.

    Beyond the users that are enumerated the number of draws sets it, far below 0.05.

    >>> [smallest_sign_flip_p(n) for n in (1, 4, 6)]
    [1.0, 0.125, 0.03125]
    """
    return 2.0 ** (1 - min(users, EXACT_UP_TO)) if users else 1.0


def holm(pvalues: Sequence[float | None]) -> list[float | None]:
    """Holm's step-down adjustment; None stays None and is not counted in the family.

    ``p_(k) → max_{j ≤ k} min(1, (m - j + 1) p_(j))`` over the m p-values that are there.
    Raises `ValueError` for one outside of [0, 1].

    >>> holm([0.01, None, 0.04, 0.03])
    [0.03, None, 0.06, 0.06]
    """
    p = np.array(pvalues, dtype=np.float64)  # None becomes NaN
    if any(value is not None and not 0 <= value <= 1 for value in pvalues):
        raise ValueError("p-values must be in [0, 1], or None")
    adjusted: list[float] = redrawn_holm(p[None])[0].tolist()
    return [None if known is None else p for known, p in zip(pvalues, adjusted, strict=True)]


def all_signs(units: int) -> FloatArray:
    """Signs of so many units in every way, shape (ways, units), one of each two opposite ones.

    >>> all_signs(2).tolist()
    [[1.0, 1.0], [-1.0, 1.0]]
    """
    # A sign vector and its opposite give the same statistic: fixing the last one halves the work.
    free = max(units - 1, 0)
    bits = (np.arange(1 << free)[:, None] >> np.arange(units)) & 1
    return (1 - 2 * bits).astype(np.float64)


def _drawn(sizes: Sequence[FloatArray], which: Sequence[int], seed: int, draws: int) -> FloatArray:
    # Statistics under random signs, shape (draws, tests), a block of users at a time.
    rng = np.random.default_rng(seed)
    users = max(sizes[k].size for k in which)
    total = np.zeros((draws, len(which)))
    at_once = max(1, CHUNK // draws)
    for start in range(0, users, at_once):
        stop = min(start + at_once, users)
        block = np.zeros((stop - start, len(which)))
        for column, k in enumerate(which):
            part = sizes[k][start:stop]
            block[: part.size, column] = part
        signs = 1 - 2 * rng.integers(0, 2, size=(stop - start, draws), dtype=np.int8)
        total += signs.T.astype(np.float64) @ block
    return np.abs(total)


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
    constant = np.abs(apart).max(axis=1) <= ROUNDING * (GAIN[1] - GAIN[0])
    effective, _ = clusters.effective(weights)
    columns = (means, _variance(apart, clusters, weights), constant)
    p = [
        interval(mean, Spread(None if np.isnan(v) else v, effective, same), 0.0, GAIN).p
        for mean, v, same in zip(*(column.tolist() for column in columns), strict=True)
    ]
    return means, np.array(p, dtype=np.float64)  # None becomes NaN


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
