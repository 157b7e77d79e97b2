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
d_u. Both moments are then those of ``crossed``, over users with rows on two questions or more.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr

from palate.metrics.arrays import FloatArray, Ids, IntArray, scored_rows, sums, vector
from palate.metrics.clusters import Clusters, compact
from palate.metrics.crossed import CrossedTable, drawn_moments, effective_questions
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
        moments = drawn_moments(table, seed=seed, draws=draws)
    else:
        moments = _moments_by_user(d, codes, seed=seed, draws=draws)
    share, *shares = _below(moments).tolist()
    if not shares:
        note = "no interval: under two draws leave users on two questions"
        return replace(bare, value=share, note=note)
    low, high = np.quantile(shares, [TAIL, 1 - TAIL]).tolist()
    return replace(bare, value=share, low=min(low, share), high=max(high, share))


def _moments_by_user(d: FloatArray, users: IntArray, *, seed: int, draws: int) -> FloatArray:
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
