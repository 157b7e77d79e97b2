"""The share of users who lose by a change, told apart from bad luck.

With few rows a user, half of the users "lose" by chance alone. So beside the raw share stands
that of a normal model of users' true differences, its two moments matched to the data:

```
d_u mean and s_u² variance of user u's n_u differences, over the U users with n_u ≥ 2
μ  = mean_u d_u
τ² = max(0, Σ_u (d_u - μ)² / (U - 1) - mean_u s_u² / n_u)
P(δ < 0) = Φ(-μ / τ);   with τ = 0, 1 where μ < 0 and else 0
```

Every user weighs the same. ``s_u² / n_u`` is unbiased for the noise of ``d_u`` whatever the
distribution of a user's differences, so τ² is what is left of the spread without luck.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtr

from palate.metrics.arrays import FloatArray, Ids, scored_rows, sums, vector
from palate.metrics.estimates import ROUNDING

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

LEAST_USERS = 3


@dataclass(frozen=True, slots=True)
class LosingShare:
    """How many users a change makes worse off; None where it cannot be told."""

    raw: float | None
    """Share of users whose mean difference is below 0."""
    share: float | None
    """P(true difference < 0) of the normal model; None with under three users of two rows."""
    low: float | None
    """Lower end of its 95 % interval, by draws of users."""
    high: float | None
    mean: float | None
    """μ, the mean of users' differences in the model."""
    spread: float | None
    """τ, the standard deviation of users' true differences."""
    n: int
    """Rows with a difference."""
    n_users: int
    """Users with such a row: those of the raw share."""
    n_modelled: int
    """Users with two or more: those of the model."""


def losing_share(
    differences: ArrayLike, users: Ids, *, seed: int = 0, draws: int = 200
) -> LosingShare:
    """Share of users with a difference below 0: raw, and by the normal model of this module.

    The interval is the 2.5 to 97.5 % range over seeded draws of users with replacement. Users are
    sorted by their numbers first, so neither names nor the order of rows can change it.

    Args:
        differences: shape (rows,); NaN rows are left out.
        users: the user id of each row.
        seed: of the draws.
        draws: how many.

    Raises:
        ValueError: for unequal lengths, an infinite difference, or fewer than one draw.

    Example:
        >>> found = losing_share([1, 1, 0, 1, -1, 0, 0, 1], ["a"] * 2 + ["b"] * 2 + list("ccdd"))
        >>> found.raw, round(found.share, 3), round(found.mean, 3), round(found.spread, 3)
        (0.25, 0.206, 0.375, 0.456)
    """
    if draws < 1:
        raise ValueError("draws must be at least 1")
    d, (codes,), names = scored_rows(vector(differences), users)
    if bool(np.isinf(d).any()):
        raise ValueError("differences must be finite, or NaN where unscored")
    if not d.size:
        return LosingShare(None, None, None, None, None, None, 0, 0, 0)
    counts = np.bincount(codes, minlength=len(names))
    means = sums(codes, d, len(names)) / counts
    raw = float(np.mean(means < -ROUNDING))
    several = counts >= 2
    modelled = int(several.sum())
    if modelled < LEAST_USERS:
        return LosingShare(raw, None, None, None, None, None, d.size, len(names), modelled)
    around = sums(codes, (d - means[codes]) ** 2, len(names))[several]
    noise = around / (counts[several] - 1) / counts[several]
    means = means[several]
    order = np.lexsort((noise, means))
    means, noise = means[order], noise[order]
    drawn = np.random.default_rng(seed).integers(0, modelled, size=(draws, modelled))
    mean, spread = _moments(means[None], noise[None])
    shares = _below(*_moments(means[drawn], noise[drawn]))
    low, high = np.quantile(shares, [0.025, 0.975]).tolist()
    share = float(_below(mean, spread)[0])
    return LosingShare(
        raw=raw,
        share=share,
        low=min(low, share),
        high=max(high, share),
        mean=float(mean[0]),
        spread=float(spread[0]),
        n=d.size,
        n_users=len(names),
        n_modelled=modelled,
    )


def _moments(means: FloatArray, noise: FloatArray) -> tuple[FloatArray, FloatArray]:
    # μ and τ of each row of users.
    mean = means.mean(axis=1)
    left = means.var(axis=1, ddof=1) - noise.mean(axis=1)
    return mean, np.sqrt(np.where(left > ROUNDING, left, 0.0))


def _below(mean: FloatArray, spread: FloatArray) -> FloatArray:
    alike = spread == 0
    share = ndtr(-mean / np.where(alike, 1.0, spread))
    return np.where(alike, np.where(mean < -ROUNDING, 1.0, 0.0), share)
