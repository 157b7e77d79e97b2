"""The noise of a verdict, from a second computation: its number's error, and whether it flips.

A row's margin h was computed once, and for a sample of n rows a second time, as m: in float32 where
h was in half precision, or by asking again. With e = h - m of the sample and s² the mean of all h²,

```
sd      = √(π/2) mean |e|
ρ       = max(0, 1 - sd²/s²)
P(flip) = Φ(-√ρ |h| / sd),   1 for a tie,   expected flips = Σ P(flip) over all scored rows
```

sd is the standard deviation of a normal error. Near 0, where verdicts flip, their number rests on
the mean size of the error alone, so it is right for errors of unequal size too. ρ is the share of
the margins' spread that is no error: a margin that came out small is nearer to 0 than its error
tells. So m is drawn as ρ h + √ρ sd z, whose sign is that of √ρ h + sd z. A judge that sees two
orders has such a margin in each, and orders that disagree are a tie.

Where over half of the errors are exactly 0 the numbers are replies, which change or do not. Then
with c of n changed, P(flip) = c/n, and a draw changes a row with a probability drawn from
Beta(c + ½, n - c + ½), into one of the other two verdicts; where none changed, none is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr

from palate.metrics.arrays import FloatArray, vector

CREDITS = np.array([0.0, 0.5, 1.0])
"""Of a rejected response, a tie, a chosen one."""


def error_sd(errors: ArrayLike) -> float | None:
    """Standard deviation of a normal error, ``√(π/2) mean |e|``; None without errors.

    >>> round(error_sd([0.1, -0.1, 0.3, -0.3]), 4)
    0.2507
    """
    e = vector(errors)
    e = e[~np.isnan(e)]
    return float(np.sqrt(np.pi / 2) * np.abs(e).mean()) if e.size else None


def are_replies(errors: ArrayLike) -> bool:
    """Whether over half of the errors are exactly 0, as of replies, and not of rounded numbers.

    >>> are_replies([0, 0, 1]), are_replies([0, 0.1, -0.1])
    (True, False)
    """
    e = vector(errors)
    e = e[~np.isnan(e)]
    return bool(e.size) and 2 * int(np.count_nonzero(e == 0)) > e.size


@dataclass(frozen=True, eq=False)
class NoisyVerdicts:
    """Verdicts by row, and how they come out when they are computed once more."""

    values: FloatArray
    """1, ½, 0, or a share; NaN where unscored."""
    margins: FloatArray
    """Of each row and order, shape (rows, orders); of shares, what they lie above ½."""
    sd: float | None
    """Of the error of one margin; None where replies change or do not."""
    n: int = 0
    """Rows computed twice."""
    changed: int = 0
    """Whose verdict changed."""
    shares: bool = False
    """Whether a margin is a share less ½."""
    known: FloatArray | None = None
    """Values of the second computation where it is right and there; else NaN."""

    @property
    def shrinkage(self) -> float:
        """ρ, the share of the margins' spread that is no error; of shares 1."""
        if self.shares:
            return 1.0
        squares = np.nanmean(np.square(self.margins)) if self.margins.size else 0.0
        return max(0.0, 1.0 - (self.sd or 0.0) ** 2 / float(squares)) if squares > 0 else 1.0

    def flips(self) -> FloatArray:
        """Probability of each row that its verdict flips; NaN where unscored.

        >>> steady = NoisyVerdicts(np.array([1.0]), np.array([[1.0]]), sd=0.5)
        >>> steady.flips().round(3)  # ρ = ¾
        array([0.042])
        """
        scored = np.where(np.isnan(self.values), np.nan, 0.0)
        if self.sd is None:
            return scored + (self.changed / self.n if self.n else 0.0)
        if self.sd == 0:
            return scored
        crossed = ndtr(-np.sqrt(self.shrinkage) * np.abs(self.margins) / self.sd)
        if self.margins.shape[1] == 1:
            tie = (self.values == 0.5) & (not self.shares)
            return np.where(tie, 1.0, scored + crossed[:, 0])
        one, two = crossed.T
        both_or_none = one * two + (1 - one) * (1 - two)
        moved = np.where(self.values == 0.5, 1 - both_or_none, 1 - (1 - one) * (1 - two))
        return np.asarray(scored + moved)

    def drawn(self, rng: np.random.Generator, draws: int) -> FloatArray:
        """Values of so many second computations, shape (draws, rows)."""
        made = self._replies(rng, draws) if self.sd is None else self._numbers(rng, draws)
        made[:, np.isnan(self.values)] = np.nan
        if self.known is not None:
            known = ~np.isnan(self.known)
            made[:, known] = self.known[known]
        return made

    def _numbers(self, rng: np.random.Generator, draws: int) -> FloatArray:
        if not self.sd:
            return np.tile(self.values, (draws, 1))
        centre = np.sqrt(self.shrinkage) * self.margins
        made = [order + self.sd * rng.standard_normal((draws, len(order))) for order in centre.T]
        if self.shares:
            return np.asarray(np.clip(made[0] + 0.5, 0.0, 1.0))
        return np.asarray(np.mean(np.sign(made), axis=0) / 2 + 0.5)

    def _replies(self, rng: np.random.Generator, draws: int) -> FloatArray:
        redrawn = np.tile(self.values, (draws, 1))
        if self.changed:
            rate = rng.beta(self.changed + 0.5, self.n - self.changed + 0.5, size=(draws, 1))
            flips: NDArray[np.bool_] = rng.random(redrawn.shape) < rate
            # The other two verdicts are equally likely.
            place = np.clip(np.rint(2 * np.nan_to_num(redrawn)), 0, 2).astype(np.int64)
            other = (place + rng.integers(1, 3, size=redrawn.shape)) % 3
            redrawn[flips] = CREDITS[other[flips]]
        return redrawn


def blocks(rows: int, draws: int, numbers: int = 1 << 20) -> Iterator[int]:
    """Yield the draws to make at a time, so that no array has more than so many numbers.

    >>> list(blocks(rows=10, draws=7, numbers=30))
    [3, 3, 1]
    """
    at_once = max(1, numbers // max(rows, 1))
    for first in range(0, draws, at_once):
        yield min(at_once, draws - first)
