"""Are log-odds margins honest probabilities?

A margin m says that the chosen response wins with probability ``sigmoid(m)``. Every pair would
carry label 1, so each is taken in both orientations: (m, label 1) and (-m, label 0).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import expit

from palate.metrics.arrays import FloatArray, Ids, deal, scored_rows, vector

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
    return float(np.exp(brentq(slope, lowest, highest, xtol=1e-10)))
