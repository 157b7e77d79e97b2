"""Tests of paired differences where users share nothing, and tests of several at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

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

    Args:
        differences: shape (rows,); NaN rows are left out.
        users: the user id of each row.
        seed: of the random signs.
        draws: how many sign vectors are drawn.

    Raises:
        ValueError: for unequal lengths, an infinite difference, or fewer than one draw.

    Example:
        >>> sign_flip_test([1, 1, 1, 1], ["a", "b", "c", "d"])
        0.125
    """
    if draws < 1:
        raise ValueError("draws must be at least 1")
    d, codes, names = scored_rows(vector(differences), users)
    if not d.size:
        return None
    by_user = sums(codes, d, len(names))
    observed = abs(float(by_user.sum()))
    size = np.sort(np.abs(by_user))
    tiny = ROUNDING * float(size.sum())
    size = size[size > tiny]
    exact = size.size <= EXACT_UP_TO
    signs = _all_signs(size.size) if exact else _drawn_signs(size.size, seed, draws)
    hits = tried = 0
    for block in signs:
        flipped = np.abs(block @ size)
        hits += int(np.count_nonzero(flipped >= observed - tiny))
        tried += len(block)
    return hits / tried if exact else (1 + hits) / (1 + tried)


def smallest_sign_flip_p(users: int) -> float:
    """Smallest p that ``sign_flip_test`` can give with so many users: ``2^(1 - U)``, all alike.

    Beyond the users that are enumerated the number of draws sets it, far below 0.05.

    Example:
        >>> [smallest_sign_flip_p(n) for n in (1, 4, 6)]
        [1.0, 0.125, 0.03125]
    """
    return 2.0 ** (1 - min(users, EXACT_UP_TO)) if users else 1.0


def holm(pvalues: Sequence[float | None]) -> list[float | None]:
    """Holm's step-down adjustment; None stays None and is not counted in the family.

    ``p_(k) → max_{j ≤ k} min(1, (m - j + 1) p_(j))`` over the m p-values that are there.

    Raises:
        ValueError: for a p-value outside of [0, 1] or NaN.

    Example:
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


def _all_signs(units: int) -> Iterator[FloatArray]:
    # A sign vector and its opposite give the same statistic: fixing the last one halves the work.
    free = max(units - 1, 0)
    bits = (np.arange(1 << free)[:, None] >> np.arange(units)) & 1
    yield (1 - 2 * bits).astype(np.float64)


def _drawn_signs(units: int, seed: int, draws: int) -> Iterator[FloatArray]:
    rng = np.random.default_rng(seed)
    rows = max(1, CHUNK // units)
    for start in range(0, draws, rows):
        shape = (min(rows, draws - start), units)
        yield (1 - 2 * rng.integers(0, 2, size=shape, dtype=np.int8)).astype(np.float64)
