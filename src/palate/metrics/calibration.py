"""Are log-odds margins honest probabilities?

A margin m says that the chosen response wins with probability ``sigmoid(m)``. Every pair would
carry label 1, so each is taken in both orientations: (m, label 1) and (-m, label 0).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit

from palate.metrics.arrays import FloatArray, Ids, IntArray, scored_rows, vector

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

T_MIN, T_MAX = 1e-3, 1e3


@dataclass(frozen=True, slots=True)
class CalibrationScores:
    """Three views of the same probabilities; lower is better."""

    brier: float
    log_loss: float
    """In nats."""
    ece: float


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


def brier(margins: ArrayLike) -> float | None:
    """Mean squared error of the probabilities, ``mean (1 - sigmoid(m))²``; None without rows.

    Both orientations have the same error. NaN margins are left out.

    Raises:
        ValueError: for an infinite margin.

    Example:
        >>> brier([0.0, 0.0]), round(brier([2.0, -1.0]), 4)
        (0.25, 0.2743)
    """
    m = _finite(margins)
    return float(np.mean(expit(-m) ** 2)) if m.size else None


def log_loss(margins: ArrayLike) -> float | None:
    """Mean negative log-likelihood in nats, ``mean log(1 + e^-m)``; None without rows.

    Raises:
        ValueError: for an infinite margin.

    Example:
        >>> round(log_loss([0.0]), 4)
        0.6931
    """
    m = _finite(margins)
    return float(np.mean(np.logaddexp(0.0, -m))) if m.size else None


def expected_calibration_error(margins: ArrayLike, *, bins: int = 15) -> float | None:
    """Mean gap between probability and share of wins, over bins of equal mass.

    ``Σ_b (mass_b / 2N) |mean label_b - mean probability_b|`` over both orientations, sorted by
    probability. Bins hold exactly ``2N / bins`` each: a row on a border counts in part on both
    sides, and equal probabilities share their mean label, so no order of rows matters.
    None without rows.

    Raises:
        ValueError: for an infinite margin or fewer than one bin.

    Example:
        >>> expected_calibration_error([0.0, 0.0, 0.0])
        0.0
        >>> round(expected_calibration_error([2.0, 2.0, 2.0, -2.0], bins=2), 4)
        0.1308
    """
    if bins < 1:
        raise ValueError("bins must be at least 1")
    m = _finite(margins)
    if not m.size:
        return None
    both = np.concatenate([m, -m])
    levels, where, counts = np.unique(both, return_inverse=True, return_counts=True)
    wins = np.bincount(where[: m.size], minlength=levels.size)
    # One step per distinct margin: straight lines between steps spread ties evenly over a border.
    mass = np.concatenate([[0], np.cumsum(counts)])
    gaps = np.concatenate([[0.0], np.cumsum(wins - counts * expit(levels))])
    edges = np.linspace(0, both.size, bins + 1)
    return float(np.abs(np.diff(np.interp(edges, mass, gaps))).sum()) / both.size


def fit_temperature(margins: ArrayLike) -> float:
    """Temperature T that makes ``sigmoid(m / T)`` likeliest, within [0.001, 1000].

    The likelihood is that of Platt's targets: the chosen response wins with
    ``t = (N + 1) / (N + 2)`` instead of 1, so that T stays finite and above 0 where every margin
    has the right sign. The root of ``mean m (sigmoid(m / T) - t)``, which falls as T grows.
    T = 1 where nothing can be learned (no margins, or all 0).

    Raises:
        ValueError: for an infinite margin.

    Example:
        >>> round(fit_temperature([2.0] * 750 + [-2.0] * 250), 2)
        1.82
    """
    m = _finite(margins)
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
    return float(np.exp(brentq(slope, lowest, highest, xtol=1e-10)))


def calibration(margins: ArrayLike, users: Ids, *, folds: int = 5, seed: int = 0) -> Calibration:
    """Calibration before and after temperature scaling, cross-fitted over folds of users.

    A user is in one fold only; each fold is scaled by the temperature of the others. Folds are
    dealt from a seeded shuffle of the users sorted by ``str(id)``, so that they do not depend on
    the order of the rows and are the same for every scorer of a benchmark.

    Args:
        margins: log-odds of chosen over rejected, shape (rows,); NaN rows are left out.
        users: the user id of each row.
        folds: at most this many; never more than there are users.
        seed: of the shuffle.

    Raises:
        ValueError: for unequal lengths, an infinite margin, or fewer than two folds.

    Example:
        >>> c = calibration([4.0, 4.0, -4.0, 4.0] * 5, [u for u in range(10) for _ in "ab"])
        >>> round(c.before.brier, 3), round(c.after.brier, 3), len(c.temperatures)
        (0.241, 0.213, 5)
    """
    if folds < 2:
        raise ValueError("cross-fitting needs at least two folds")
    given = vector(margins)
    _finite(given)
    m, (codes,), names = scored_rows(given, users)
    if len(names) < 2:
        return Calibration(_scores(m), None, (), m.size, len(names))
    fold = _folds([str(name) for name in names], folds, seed)[codes]
    temperatures = [fit_temperature(m[fold != k]) for k in range(int(fold.max()) + 1)]
    scaled = m / np.array(temperatures)[fold]
    return Calibration(_scores(m), _scores(scaled), tuple(temperatures), m.size, len(names))


def _finite(margins: ArrayLike) -> FloatArray:
    m = vector(margins)
    if bool(np.isinf(m).any()):
        raise ValueError("margins must be finite, or NaN where unscored")
    return m[~np.isnan(m)]


def _folds(names: list[str], folds: int, seed: int) -> IntArray:
    dealt = np.random.default_rng(seed).permutation(len(names)) % min(folds, len(names))
    fold = np.empty(len(names), dtype=np.int64)
    fold[sorted(range(len(names)), key=names.__getitem__)] = dealt
    return fold


def _scores(m: FloatArray) -> CalibrationScores | None:
    squared, loss, ece = brier(m), log_loss(m), expected_calibration_error(m)
    if squared is None or loss is None or ece is None:
        return None
    return CalibrationScores(squared, loss, ece)
