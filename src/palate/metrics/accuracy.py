"""Verdicts as numbers, and what share of them is right.

An outcome is 1 (chosen), 1/2 (tie), 0 (rejected) or NaN (unscored). A row that was judged several
times holds the share that chosen won, in [0, 1]: accuracy takes its value; counts take it as
chosen, tie or rejected where it is above, at or below 1/2. Unscored rows never count as wrong in
``accuracy``; ``accuracy_bounds`` says how much they could matter.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from palate.metrics.arrays import FloatArray, Ids, same_length, vector
from palate.metrics.clusters import Clusters
from palate.metrics.estimates import UNIT, Estimate
from palate.metrics.means import clustered_mean

TIED = 1e-6
"""Largest difference of two margins that are equal."""


@dataclass(frozen=True, slots=True)
class OutcomeCounts:
    """How many rows ended in each of the four ways."""

    chosen: int
    rejected: int
    ties: int
    unscored: int

    @property
    def scored(self) -> int:
        """Rows with a verdict."""
        return self.chosen + self.rejected + self.ties

    @property
    def total(self) -> int:
        """All rows."""
        return self.scored + self.unscored


def outcome_counts(values: ArrayLike) -> OutcomeCounts:
    """Count the four ends of a judgement; a share counts by the side of 1/2 it lies on.

    >>> outcome_counts([1, 0.75, 0.5, 0, float("nan")])
    OutcomeCounts(chosen=2, rejected=1, ties=1, unscored=1)
    """
    x = vector(values)
    counted = OutcomeCounts(
        chosen=int(np.count_nonzero((x > 0.5) & (x <= 1))),
        rejected=int(np.count_nonzero((x >= 0) & (x < 0.5))),
        ties=int(np.count_nonzero(x == 0.5)),
        unscored=int(np.count_nonzero(np.isnan(x))),
    )
    if counted.total != x.size:
        raise ValueError(
            "outcomes must be 1 (chosen), 0.5 (tie), 0 (rejected), a share between, or NaN "
            "(unscored)"
        )
    return counted


def accuracy(values: ArrayLike, clusters: Ids | Clusters) -> Estimate:
    """Share of scored rows that are right, ties half: ``(chosen + ½ ties) / scored``.

    Of rows that hold shares it is the mean of the shares.

    Micro (every row weighs the same), with the interval of ``clustered_mean``.

    >>> e = accuracy([1, 0.5, 0, 1, float("nan")], ["a", "a", "b", "c", "c"])
    >>> e.value, e.n, e.n_units
    (0.625, 4, 3)
    """
    outcome_counts(values)
    return clustered_mean(values, clusters)


def strict_accuracy(values: ArrayLike) -> float | None:
    """Share of all rows in which the chosen response won outright: ``chosen / all``.

    A row that holds a share counts where the share is above 1/2. None without rows.

    >>> strict_accuracy([1, 0.5, 0, 1, float("nan")])
    0.4
    """
    counted = outcome_counts(values)
    return counted.chosen / counted.total if counted.total else None


def accuracy_bounds(values: ArrayLike) -> tuple[float, float] | None:
    """Accuracy if every unscored row were wrong, and if every one were right.

    ``((chosen + ½ ties) / all, (chosen + ½ ties + unscored) / all)``, where a share counts as much
    as it is; None without rows.

    >>> accuracy_bounds([1, 0.5, 0, 1, float("nan")])
    (0.5, 0.7)
    """
    counted = outcome_counts(values)
    if not counted.total:
        return None
    right = float(np.nansum(vector(values)))
    return right / counted.total, (right + counted.unscored) / counted.total


def mirrored_values(v_a: ArrayLike, v_b: ArrayLike) -> FloatArray:
    """Value of each couple, ``x_c = (v_A + v_B) / 2``; NaN where either slate is unscored.

    >>> mirrored_values([1, 1, 0.5], [0, 1, float("nan")]).tolist()
    [0.5, 1.0, nan]
    """
    first, second = vector(v_a, bounds=UNIT), vector(v_b, bounds=UNIT)
    same_length(v_a=first, v_b=second)
    outcome_counts(np.concatenate([first, second]))
    return (first + second) / 2


def concordance_values(margin_a: ArrayLike, margin_b: ArrayLike) -> FloatArray:
    """Whether A's choice stands higher under A than under B: 1, 1/2 (tied) or 0 per couple.

    ``x_c = 1, ½, 0 as m_A(c) - m_B(c) is > 1e-6, within ± 1e-6, < -1e-6``, where both margins are
    of A's choice over B's choice; NaN where either is.

    >>> concordance_values([2.0, 0.3, -1.0, 1.0], [1.0, 0.3, 0.5, float("nan")]).tolist()
    [1.0, 0.5, 0.0, nan]
    """
    first, second = vector(margin_a), vector(margin_b)
    same_length(margin_a=first, margin_b=second)
    if bool(np.isinf(first).any() or np.isinf(second).any()):
        raise ValueError("margins must be finite, or NaN where unscored")
    moved = first - second
    sign = np.where(np.abs(moved) <= TIED, 0.0, np.sign(moved))
    return 0.5 + sign / 2
