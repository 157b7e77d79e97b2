"""Which opposite votes become couples: a seeded maximum matching."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_bipartite_matching

from palate.metrics.arrays import Ids, IntArray, id_codes

if TYPE_CHECKING:
    from collections.abc import Sequence


def match_opposite(users_a: Ids, users_b: Ids, rng: np.random.Generator) -> list[tuple[int, int]]:
    """Couple votes for the one response with votes for the other, never of the same user.

    A maximum matching: no other choice of couples holds more of them. Its size is
    ``min(n_a, n_b, n_a + n_b - max_u (votes of u on both sides))``. Which votes are coupled is
    drawn from ``rng``.

    Args:
        users_a: the user of each vote for the first response.
        users_b: the user of each vote for the second response.
        rng: the source of chance.

    Returns:
        Pairs (position in ``users_a``, position in ``users_b``), sorted; each position once.

    Raises:
        ValueError: for a NaN user id.

    Example:
        >>> match_opposite(["ann", "bob"], ["bob", "cy", "ann"], np.random.default_rng(0))
        [(0, 0), (1, 2)]
    """
    n_a, n_b = len(users_a), len(users_b)
    codes, _ = id_codes([*_listed(users_a), *_listed(users_b)])
    rows, columns = rng.permutation(n_a), rng.permutation(n_b)
    left, right = codes[:n_a][rows], codes[n_a:][columns]
    if np.intersect1d(left, right).size:
        i, j = _maximum(left, right)
    else:
        # Everyone may be coupled with everyone: the shuffle alone is a maximum matching.
        i = j = np.arange(min(n_a, n_b))
    return sorted(zip(rows[i].tolist(), columns[j].tolist(), strict=True))


def _listed(users: Ids) -> Sequence[object]:
    return users.tolist() if isinstance(users, np.ndarray) else users


def _maximum(left: IntArray, right: IntArray) -> tuple[IntArray, IntArray]:
    allowed = csr_array(left[:, None] != right[None, :])
    partner = np.asarray(maximum_bipartite_matching(allowed, perm_type="column"), dtype=np.int64)
    matched = np.flatnonzero(partner >= 0)
    return matched, partner[matched]
