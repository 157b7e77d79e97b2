"""Verdicts as numbers, what share of them is right, and whether a judge keeps its mind.

An outcome is 1 (chosen), 1/2 (tie), 0 (rejected) or NaN (unscored). A row that was judged several
times holds the share that chosen won, in [0, 1]: accuracy takes its value; counts take it as
chosen, tie or rejected where it is above, at or below 1/2. Unscored rows never count as wrong in
``accuracy``; ``accuracy_bounds`` says how much they could matter.

A log-odds margin m says that the chosen response wins with probability ``sigmoid(m)``. Is it
honest? Every pair would carry label 1, so `calibration` takes each in both orientations: (m, label
1) and (-m, label 0).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from palate.metrics.arrays import FloatArray, Ids, deal, same_length, scored_rows, vector
from palate.metrics.clusters import Clusters
from palate.metrics.estimates import Estimate
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


@dataclass(frozen=True, slots=True)
class PositionConsistency:
    """A judge's votes in both orders; shares are None without pairs read in both."""

    consistent: float | None
    """Share of pairs with the same verdict in both orders."""
    low: float | None
    """Lower end of its 95 % Wilson interval."""
    high: float | None
    """Upper end of its 95 % Wilson interval."""
    bias: float | None
    """P(the response shown first wins) - 1/2, ties half; in [-1/2, 1/2]."""
    bias_p: float | None
    """Exact binomial p-value of as many "first, first" as "second, second" pairs."""
    first_twice: int
    """Pairs in which the position shown first won both times."""
    second_twice: int
    """Pairs in which the position shown second won both times."""
    n: int
    """Pairs read in both orders."""


def position_consistency(
    first_order_votes: ArrayLike, second_order_votes: ArrayLike
) -> PositionConsistency:
    """Share of pairs judged alike in both orders, and the pull of the first position.

    With votes v₁, v₂ (1, 1/2 for a tie, 0, NaN where unread) for the response that is shown first
    in the first order and second in the second order: consistent where ``v₁ = v₂``;
    ``bias = mean(v₁ - v₂) / 2``.

    >>> c = position_consistency([1, 1, 1, 0], [1, 0, 1, 0])
    >>> c.consistent, round(c.low, 3), round(c.high, 3), c.bias
    (0.75, 0.301, 0.954, 0.125)
    """
    from scipy.stats import binomtest  # slow to import

    first, second = vector(first_order_votes), vector(second_order_votes)
    same_length(first_order_votes=first, second_order_votes=second)
    outcome_counts(np.concatenate([first, second]))
    both = ~np.isnan(first + second)
    moved = (first - second)[both]
    n = int(moved.size)
    if not n:
        return PositionConsistency(None, None, None, None, None, 0, 0, 0)
    same = int(np.count_nonzero(moved == 0))
    ones, others = int(np.count_nonzero(moved == 1)), int(np.count_nonzero(moved == -1))
    bias = float(moved.mean()) / 2
    low, high = binomtest(same, n).proportion_ci(method="wilson")
    p = binomtest(ones, ones + others).pvalue if ones + others else 1.0
    return PositionConsistency(same / n, float(low), float(high), bias, float(p), ones, others, n)


T_MIN, T_MAX = 1e-3, 1e3


@dataclass(frozen=True, slots=True)
class CalibrationScores:
    """Three views of the same probabilities; lower is better."""

    brier: float
    """Mean squared error, ``mean (1 - sigmoid(m))²``: both orientations have the same."""
    log_loss: float
    """Mean negative log-likelihood in nats, ``mean log(1 + e^-m)``."""
    ece: float
    """Expected calibration error: mean gap of probability and share of wins, over 15 bins."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """Scores as the margins came, and after a temperature learned on other users."""

    before: CalibrationScores | None
    """None without rows."""
    after: CalibrationScores | None
    """None with fewer than two users."""
    temperatures: tuple[float, ...]
    """One per fold, learned on all other folds."""
    n: int
    n_users: int


def calibration(margins: ArrayLike, users: Ids, *, seed: int = 0) -> Calibration:
    """Calibration before and after temperature scaling, cross-fitted over five folds of users.

    A user is in one fold only; each fold is scaled by the temperature of the others. Folds are
    dealt from a seeded shuffle of the users sorted by ``str(id)``, so that they do not depend on
    the order of the rows and are the same for every scorer of a benchmark.

    >>> c = calibration([4.0, 4.0, -4.0, 4.0] * 5, [u for u in range(10) for _ in "ab"])
    >>> round(c.before.brier, 3), round(c.after.brier, 3), len(c.temperatures)
    (0.241, 0.213, 5)
    """
    m, codes, names = scored_rows(vector(margins), users)
    fold = deal(names, seed)[codes]
    if len(names) < 2:
        return Calibration(_scores(m), None, (), m.size, len(names))
    temperatures = [fitted_temperature(m[fold != k]) for k in range(int(fold.max()) + 1)]
    scaled = m / np.array(temperatures)[fold]
    return Calibration(_scores(m), _scores(scaled), tuple(temperatures), m.size, len(names))


def _scores(m: FloatArray) -> CalibrationScores | None:
    if not m.size:
        return None
    brier, log_loss = np.mean(expit(-m) ** 2), np.mean(np.logaddexp(0.0, -m))
    return CalibrationScores(float(brier), float(log_loss), calibration_error(m))


def calibration_error(m: FloatArray, bins: int = 15) -> float:
    """``Σ_b (mass_b / 2N) |mean label_b - mean probability_b|``, bins of equal mass.

    Over both orientations, sorted by probability. Bins hold exactly ``2N / bins`` each: a row on a
    border counts in part on both sides, and equal probabilities share their mean label, so no order
    of rows matters.
    """
    both = np.concatenate([m, -m])
    levels, where, counts = np.unique(both, return_inverse=True, return_counts=True)
    wins = np.bincount(where[: m.size], minlength=levels.size)
    # One step per distinct margin: straight lines between steps spread ties evenly over a border.
    mass = np.concatenate([[0], np.cumsum(counts)])
    gaps = np.concatenate([[0.0], np.cumsum(wins - counts * expit(levels))])
    edges = np.linspace(0, both.size, bins + 1)
    return float(np.abs(np.diff(np.interp(edges, mass, gaps))).sum()) / both.size


def fitted_temperature(m: FloatArray) -> float:
    """Temperature T that makes ``sigmoid(m / T)`` likeliest, within [0.001, 1000].

    The likelihood is that of Platt's targets: the chosen response wins with
    ``t = (N + 1) / (N + 2)`` instead of 1, so that T stays finite and above 0 where every margin
    has the right sign. The root of ``mean m (sigmoid(m / T) - t)``, which falls as T grows.
    T = 1 where nothing can be learned (no margins, or all 0).
    """
    if not bool(np.any(m)):
        return 1.0
    target = (m.size + 1) / (m.size + 2)

    def slope(log_t: float) -> float:
        return float(np.mean(m * (expit(m * np.exp(-log_t)) - target)))

    lowest, highest = float(np.log(T_MIN)), float(np.log(T_MAX))
    if slope(lowest) <= 0:
        return T_MIN
    if slope(highest) >= 0:
        return T_MAX
    from scipy.optimize import brentq  # slow to import

    return float(np.exp(brentq(slope, lowest, highest, xtol=1e-10)))
