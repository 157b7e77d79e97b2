"""The share of users whom a change harms, told apart from bad luck.

With few rows a user, half of the users "lose" by chance alone. So the share is that of a normal
model of users' true differences, its two moments matched to the data:

```
d_u mean and s_u² variance of user u's n_u differences, over the U users with n_u ≥ 2
μ  = mean_u d_u
τ² = max(0, Σ_u (d_u - μ)² / (U - 1) - mean_u s_u² / n_u)
P(δ < 0) = Φ(-μ / τ);   with τ = 0, 1 where μ < 0 and else 0
```

Every user weighs the same. ``s_u² / n_u`` is unbiased for the noise of ``d_u`` whatever the
distribution of a user's differences, so τ² is what is left of the spread without luck. Where users
share questions it is not: what a question does to all users is in s_u² and not in the spread of
d_u. Both moments are then those of `CrossedTable`, over users with rows on two
questions or more:

A row weighs 1/n_u, m_u is a user's mean, x = d - μ. Under weights a of users and b of questions
(all 1; in a draw, how often each was drawn) a row counts a_u b_q times:

```
μ  = Σ_u a_u m_u / Σ_u a_u
τ² = mean_u (mean x_i x_j, rows of u, different questions)
     - mean (x_i x_j, rows of different users and questions)
```

A question moves all of its users alike. Within one user that looks like luck; pairs of rows on
different questions are free of it, and of luck. Rows of a user or question drawn twice stay rows of
one user or question, since the product of a row with its own copy is a square.

Draws of users × questions count the luck of a cell thrice (Owen 2007, the pigeonhole bootstrap). So
the deviations of μ and of τ² from their estimates are brought to the two-way variance, V_user and
V_question those of the same draws of users alone and of questions alone, each times G/(G - 1) for G
units, V_cell that of both less either:

```
V = max(V_user, V_user + V_question - V_cell),   deviations × t_{0.975, ν} / z_{0.975} √(V / V_both)
ν = min(U, Q_eff) - 1
```
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array
from scipy.special import ndtr, ndtri, stdtrit

from palate.metrics.arrays import FloatArray, Ids, IntArray, scored_rows, sums, vector
from palate.metrics.clusters import Clusters, compact
from palate.metrics.estimates import ROUNDING, TAIL, Estimate

LEAST_USERS = 3


def harmed_share(
    differences: ArrayLike,
    users: Ids,
    questions: Ids | None = None,
    *,
    seed: int = 0,
    draws: int = 200,
) -> Estimate:
    """Share of users with a true difference below 0, by the normal model of this module.

    n counts users with two rows or more, on different questions where questions are shared. Under
    three of them, or with an effective number of shared questions of 2 or fewer, there is no share.

    The interval is the 2.5 to 97.5 % range over seeded draws of users with replacement, and of
    questions where two users share one (without `questions` none is shared). Users and questions
    are sorted by their numbers first, so names cannot change it; nor can the order of rows where no
    two of them have equal numbers.

    >>> d, users = [1, 1, 0, 1, -1, 0, 0, 1], ["a"] * 2 + ["b"] * 2 + list("ccdd")
    >>> round(harmed_share(d, users).value, 3)
    0.206
    >>> round(harmed_share(d, users, list("xyyzzxyx")).value, 3)
    0.185
    """
    if draws < 1:
        raise ValueError("draws must be at least 1")
    values = vector(differences)
    d, codes, _ = scored_rows(values, users)
    question = np.arange(d.size) if questions is None else scored_rows(values, questions)[1]
    if not d.size:
        return Estimate()
    shared = Clusters((codes,), question).items is not None
    # Two rows on one shared question say nothing of how a user fares on others.
    rows_of = codes if not shared else np.unique(np.stack([codes, question]), axis=1)[0]
    several = np.bincount(rows_of) >= 2
    n = int(several.sum())
    bare = Estimate(n=n, n_units=n)
    if n < LEAST_USERS:
        needed = "rows on two questions" if shared else "two rows"
        note = f"no share: {n} users with {needed}, and {LEAST_USERS} are needed"
        return replace(bare, note=note)
    rows = several[codes]
    d, codes, question = d[rows], compact(codes[rows])[0], compact(question[rows])[0]
    if shared:
        table = CrossedTable.of(d, codes, question)
        effective = effective_questions(table)
        if effective <= 2:  # nor has any other figure an interval
            note = f"no share: {effective:.1f} effective questions, and more than 2 are needed"
            return replace(bare, note=note)
        moments = drawn_moments(table, seed, draws)
    else:
        moments = _moments_by_user(d, codes, seed, draws)
    share, *shares = _below(moments).tolist()
    if not shares:
        note = "no interval: under two draws leave users on two questions"
        return replace(bare, value=share, note=note)
    low, high = np.quantile(shares, [TAIL, 1 - TAIL]).tolist()
    return replace(bare, value=share, low=min(low, share), high=max(high, share))


def _moments_by_user(d: FloatArray, users: IntArray, seed: int, draws: int) -> FloatArray:
    """μ and τ² of all users, then of draws of them, shape (2, 1 + draws)."""
    counts = np.bincount(users)
    means = sums(users, d, counts.size) / counts
    noise = sums(users, (d - means[users]) ** 2, counts.size) / (counts - 1) / counts
    drawn = np.random.default_rng(seed).integers(0, counts.size, size=(draws, counts.size))
    of = np.lexsort((noise, means))[np.vstack([np.arange(counts.size), drawn])]
    left = means[of].var(axis=1, ddof=1) - noise[of].mean(axis=1)
    return np.stack([means[of].mean(axis=1), left])


def _below(moments: FloatArray) -> FloatArray:
    mean, variance = moments
    alike = variance <= ROUNDING
    share = ndtr(-mean / np.sqrt(np.where(alike, 1.0, variance)))
    return np.where(alike, np.where(mean < -ROUNDING, 1.0, 0.0), share)


BLOCK = 1 << 20
"""Numbers in one array of weights: 8 MiB, and about twenty such arrays at a time."""


class CrossedTable(NamedTuple):
    """Sums by user and question, each a sparse matrix of shape (users, questions)."""

    counts: csr_array
    """Rows, n."""
    sums: csr_array
    """Differences, s, less a constant near their mean, so that no digits are lost."""
    offset: float
    """The constant."""

    @classmethod
    def of(cls, differences: FloatArray, users: IntArray, questions: IntArray) -> CrossedTable:
        """Add up the rows of each user on each question.

        Users and questions, coded from 0 without gaps, are sorted by their means and numbers of
        rows, so that names cannot change what is drawn; of equal ones the order of rows decides.
        """
        users, questions = _by_mean(differences, users), _by_mean(differences, questions)
        shape = int(users.max()) + 1, int(questions.max()) + 1
        rows = np.bincount(users).astype(np.float64)
        offset = float(np.mean(sums(users, differences, shape[0]) / rows))
        cells, at = np.unique(users * shape[1] + questions, return_inverse=True)
        n, s = np.bincount(at).astype(np.float64), sums(at, differences - offset, cells.size)
        place = np.divmod(cells, shape[1])
        return cls(csr_array((n, place), shape), csr_array((s, place), shape), offset)


def effective_questions(table: CrossedTable) -> float:
    """Effective number of questions, ``(Σ_q w_q)² / Σ_q w_q²``, where each row weighs 1/n_u."""
    users = table.counts.shape[0]
    weights = table.counts.T @ (1 / table.counts.sum(axis=1))
    return float(users**2 / (weights @ weights))


def crossed_moments(
    table: CrossedTable,
    user_weights: FloatArray | None = None,
    question_weights: FloatArray | None = None,
) -> FloatArray:
    """μ and τ² under each column of weights, shape (2, draws); NaN where it leaves no pair.

    Weights have shapes (users, draws) and (questions, draws), whole numbers of 0 or more; by
    default 1, for one draw. Users left with rows on fewer than two questions count in neither
    moment. From sums by user, question and cell, so rows are never paired.

    Two users differ by 2, two questions by 4; every cell is the sum of both:

    >>> rows = np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])
    >>> table = CrossedTable.of(np.array([-3.0, 1.0, -1.0, 3.0]), *rows)
    >>> crossed_moments(table).tolist()
    [[0.0], [2.0]]
    """
    user_weights, question_weights = (
        np.ones((size, 1)) if weights is None else weights
        for size, weights in zip(table.counts.shape, (user_weights, question_weights), strict=True)
    )
    squared = question_weights**2
    n, s = table.counts @ question_weights, table.sums @ question_weights
    counts, of_rows, _ = table
    products = counts * counts, counts * of_rows, of_rows * of_rows
    nn, ns, ss = (matrix @ squared for matrix in products)
    pairs = n * n - nn  # of whole numbers, so exactly 0 where a user has one question or none
    paired = pairs > 0
    users = np.where(paired, user_weights, 0.0)
    leverage = users / np.where(paired, n, 1.0)
    total = users.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = (leverage * s).sum(axis=0) / total
        x = s - mean * n
        same_question = ss - 2 * mean * ns + mean**2 * nn
        pair_sums = x * x - same_question
        within = (users * pair_sums / np.where(paired, pairs, 1.0)).sum(axis=0) / total
        weights = table.counts.T @ leverage
        by_question = (table.sums.T @ leverage - mean * weights) * question_weights
        # The sum of all weighted x is 0, so that of all pairs is too.
        apart = -(leverage**2 * pair_sums).sum(axis=0) - (by_question**2).sum(axis=0)
        n_apart = total**2 - (leverage**2 * pairs).sum(axis=0)
        n_apart -= ((weights * question_weights) ** 2).sum(axis=0)
        between = apart / np.where(n_apart > ROUNDING * total**2, n_apart, np.nan)
    return np.stack(np.broadcast_arrays(mean + table.offset, within - between))


def drawn_moments(table: CrossedTable, seed: int, draws: int) -> FloatArray:
    """μ and τ², then those of draws of users and questions, deviations scaled as in this module.

    Shape (2, 1 + usable draws). Draws that leave no pair are left out; a single one that is left
    has no variance and goes too. The effective number of questions must be above 1.

    >>> users, questions = np.divmod(np.arange(60), 6)
    >>> drawn_moments(CrossedTable.of(users / 9, users, questions), seed=0, draws=50).shape
    (2, 51)
    """
    shape, rng = table.counts.shape, np.random.default_rng(seed)
    estimate = crossed_moments(table)
    step = max(1, BLOCK // sum(shape))
    blocks = []
    for start in range(0, draws, step):
        a, b = (_drawn(rng, size, min(step, draws - start)) for size in shape)
        weights = ((a, b), (a, None), (None, b))
        blocks.append(np.stack([crossed_moments(table, *pair) for pair in weights]))
    moments = np.concatenate(blocks, axis=2) - estimate
    both, users, questions = moments[:, :, np.isfinite(moments).all(axis=(0, 1))]
    if both.shape[1] < 2:
        return estimate
    parts = np.stack([both, users, questions, both - users - questions])
    v_both, v_user, v_question, v_cell = parts.var(axis=2, keepdims=True)
    v_user, v_question = (
        v * (size / (size - 1)) for v, size in zip((v_user, v_question), shape, strict=True)
    )
    v = np.maximum(v_user, v_user + v_question - v_cell)
    v = np.divide(v, v_both, out=np.zeros_like(v), where=v_both > 0)
    df = min(shape[0], effective_questions(table)) - 1
    scaled = float(stdtrit(df, 1 - TAIL) / ndtri(1 - TAIL)) * np.sqrt(v) * both
    return np.hstack([estimate, estimate + scaled])


def _drawn(rng: np.random.Generator, size: int, draws: int) -> FloatArray:
    """How often each of some units is drawn, shape (size, draws)."""
    at = rng.integers(0, size, size=(draws, size)) + size * np.arange(draws)[:, None]
    counts = np.bincount(at.ravel(), minlength=size * draws).reshape(draws, size)
    columns: FloatArray = np.ascontiguousarray(counts.T, dtype=np.float64)
    return columns


def _by_mean(differences: FloatArray, codes: IntArray) -> IntArray:
    """Number the clusters anew, by mean and number of rows."""
    counts = np.bincount(codes)
    order = np.lexsort((counts, sums(codes, differences, counts.size) / counts))
    rank: IntArray = np.argsort(order)[codes]
    return rank
