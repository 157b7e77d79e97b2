"""Many small ridge-logistic fits at once: one Newton job for all users.

Per user, argmin over δ of Σ softplus(−(gᵢ + Dᵢ·δ)) + |δ|² / (2 τ²): convex, so there is one answer,
finite however separable the choices. With fewer choices than numbers it is solved over the choices
(δ = τ² Dᵀa, aᵢ = σ(−marginᵢ) at the optimum), else over the numbers.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from palate.personal.choices import Doubles

STEPS, CLOSE = 100, 1e-9


def ridge_offsets(
    differences: NDArray[np.floating],
    mask: NDArray[np.bool_],
    margins: Doubles,
    variance: float,
) -> Doubles:
    """Return δ (u × d) from differences (u × m × d), mask and margins g (u × m), and τ².

    >>> d = np.array([[[1.0], [1.0]]])
    >>> ridge_offsets(d, np.array([[True, False]]), np.zeros((1, 2)), 1.0).round(4)
    array([[0.4011]])
    """
    rows = np.where(mask[..., None], differences, 0.0).astype(np.float64)
    if rows.shape[1] <= rows.shape[2]:
        found = _over_choices(rows, mask, margins, variance)
        return np.asarray(variance * np.einsum("um,umd->ud", found, rows))
    return _over_numbers(rows, mask, margins, variance)


def _over_choices(
    rows: Doubles, mask: NDArray[np.bool_], margins: Doubles, variance: float
) -> Doubles:
    gram = variance * rows @ rows.transpose(0, 2, 1)
    eye = np.eye(rows.shape[1])
    a = np.zeros(margins.shape)
    loss = _loss(margins, mask) + 0.0
    for _ in range(STEPS):
        p = np.where(mask, expit(-(margins + _times(gram, a))), 0.0)
        curve = p * (1 - p)
        step = np.linalg.solve(eye + curve[..., None] * gram, (p - a)[..., None])[..., 0]
        size = np.ones((len(rows), 1))
        for _ in range(STEPS):
            tried = a + size * step
            moved = _times(gram, tried)
            new = _loss(margins + moved, mask) + 0.5 * (tried * moved).sum(axis=1)
            worse = new > loss + 1e-12 * np.abs(loss)
            if not worse.any():
                break
            size = np.where(worse[:, None], size / 2, size)
        a, loss = tried, new
        if np.abs(size * step).max(initial=0) < CLOSE:
            break
    return a


def _over_numbers(
    rows: Doubles, mask: NDArray[np.bool_], margins: Doubles, variance: float
) -> Doubles:
    delta = np.zeros((len(rows), rows.shape[2]))
    eye = np.eye(rows.shape[2]) / variance
    loss = _loss(margins, mask)
    for _ in range(STEPS):
        p = np.where(mask, expit(-(margins + np.einsum("umd,ud->um", rows, delta))), 0.0)
        weighted = rows * (p * (1 - p))[..., None]
        gradient = np.einsum("um,umd->ud", p, rows) - delta / variance
        curve = rows.transpose(0, 2, 1) @ weighted + eye
        step = np.linalg.solve(curve, gradient[..., None])[..., 0]
        size = np.ones((len(rows), 1))
        for _ in range(STEPS):
            tried = delta + size * step
            moved = margins + np.einsum("umd,ud->um", rows, tried)
            new = _loss(moved, mask) + 0.5 * (tried**2).sum(axis=1) / variance
            worse = new > loss + 1e-12 * np.abs(loss)
            if not worse.any():
                break
            size = np.where(worse[:, None], size / 2, size)
        delta, loss = tried, new
        if np.abs(size * step).max(initial=0) < CLOSE:
            break
    return delta


def _loss(margins: Doubles, mask: NDArray[np.bool_]) -> Doubles:
    return np.asarray(np.where(mask, np.logaddexp(0, -margins), 0.0).sum(axis=1))


def _times(gram: Doubles, a: Doubles) -> Doubles:
    return np.asarray(np.einsum("umn,un->um", gram, a))
