"""Many small ridge-logistic fits at once: one Newton job for all users.

Per user, argmin over δ of Σ softplus(−(gᵢ + Dᵢ·δ)) + |δ|² / (2 τ²): convex, so there is one answer,
finite however separable the choices. With fewer choices than numbers it is solved over the choices
(δ = τ² Dᵀa, aᵢ = σ(−marginᵢ) at the optimum), else over the numbers.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from palate.learning.personal.choices import Doubles

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
    gram, eye = variance * rows @ rows.transpose(0, 2, 1), np.eye(rows.shape[1])

    def loss(a: Doubles) -> Doubles:
        moved = _times(gram, a)
        return np.asarray(_loss(margins + moved, mask) + 0.5 * (a * moved).sum(axis=1))

    def step(a: Doubles) -> Doubles:
        p = np.where(mask, expit(-(margins + _times(gram, a))), 0.0)
        curve = p * (1 - p)
        return _solved(eye + curve[..., None] * gram, p - a)

    return search(np.zeros(margins.shape), step, loss)


def _over_numbers(
    rows: Doubles, mask: NDArray[np.bool_], margins: Doubles, variance: float
) -> Doubles:
    eye = np.eye(rows.shape[2]) / variance

    def loss(delta: Doubles) -> Doubles:
        moved = margins + np.einsum("umd,ud->um", rows, delta)
        return np.asarray(_loss(moved, mask) + 0.5 * (delta**2).sum(axis=1) / variance)

    def step(delta: Doubles) -> Doubles:
        p = np.where(mask, expit(-(margins + np.einsum("umd,ud->um", rows, delta))), 0.0)
        curve = rows.transpose(0, 2, 1) @ (rows * (p * (1 - p))[..., None]) + eye
        return _solved(curve, np.einsum("um,umd->ud", p, rows) - delta / variance)

    return search(np.zeros((len(rows), rows.shape[2])), step, loss)


def search(
    start: Doubles,
    step: Callable[[Doubles], Doubles],
    loss: Callable[[Doubles], Doubles],
    move: Callable[[Doubles, Doubles], Doubles] = np.add,
) -> Doubles:
    """Return where steps, each halved until it does not raise the loss, no longer move anybody."""
    x, least = start, loss(start)
    for _ in range(STEPS):
        whole, size = step(x), np.ones((len(x), 1))
        for _ in range(STEPS):
            tried = move(x, size * whole)
            new = loss(tried)
            worse = new > least + 1e-12 * np.abs(least)
            if not worse.any():
                break
            size = np.where(worse[:, None], size / 2, size)
        moved = np.abs(tried - x).max(initial=0)
        x, least = tried, new
        if moved < CLOSE:
            break
    return x


def _loss(margins: Doubles, mask: NDArray[np.bool_]) -> Doubles:
    return np.asarray(np.where(mask, np.logaddexp(0, -margins), 0.0).sum(axis=1))


def _solved(curve: Doubles, slope: Doubles) -> Doubles:
    return np.asarray(np.linalg.solve(curve, slope[..., None])[..., 0])


def _times(gram: Doubles, a: Doubles) -> Doubles:
    return np.asarray(np.einsum("umn,un->um", gram, a))
