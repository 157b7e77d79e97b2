"""Tests of paired differences where users share nothing, and tests of several at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from palate.metrics.arrays import FloatArray, Ids, scored_rows, sums, vector
from palate.metrics.estimates import ROUNDING

EXACT_UP_TO = 12
CHUNK = 1 << 21


def sign_flip_test(
    differences: ArrayLike, users: Ids, *, seed: int = 0, draws: int = 10_000
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
    return sign_flip_tests([sums(codes, d, len(names))], seed=seed, draws=draws)[0]


def sign_flip_tests(
    by_user: Sequence[FloatArray], *, seed: int = 0, draws: int = 10_000
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
    known = [i for i, p in enumerate(pvalues) if p is not None]
    p = np.array([pvalues[i] for i in known], dtype=np.float64)
    if not bool(np.all((p >= 0) & (p <= 1))):
        raise ValueError("p-values must be in [0, 1], or None")
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(np.minimum(1.0, p[order] * np.arange(p.size, 0, -1)))
    adjusted: list[float | None] = [None] * len(pvalues)
    for place, rank in enumerate(order):
        adjusted[known[rank]] = float(stepped[place])
    return adjusted


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
