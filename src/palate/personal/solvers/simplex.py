"""Weights on the simplex for many users: one convex Newton job for all.

Per user, argmin over w ≥ 0, Σ w = 1 of Σᵢ softplus(−Pᵢ·w) − c Σ_k w̄_k log w_k: the choices'
likelihood under a Dirichlet-shaped prior whose mode is w̄. The problem is convex and its answer lies
inside the simplex, however separable the choices; without choices it is w̄.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from palate.personal.choices import Choices, Doubles
from palate.personal.projection import NUMBERS, narrowed
from palate.personal.solvers.threads import one_blas_thread

STEPS, CLOSE, TO_THE_EDGE = 100, 1e-9, 0.9
FLOOR = 1e-6
"""No mean weight is below this, so that nobody's weight of a prototype is ruled out."""


def simplex_weights(
    rows: NDArray[np.floating], mask: NDArray[np.bool_], centre: Doubles, concentration: float
) -> Doubles:
    """Return w (u × B) from P (u × m × B), mask (u × m), w̄ (B) and c.

    >>> p = np.array([[[2.0, 0.0]]])
    >>> simplex_weights(p, np.array([[True]]), np.array([0.5, 0.5]), 1.0).round(3)
    array([[0.609, 0.391]])
    """
    seen = np.where(mask[..., None], rows, 0.0).astype(np.float64)
    pull = concentration * centre
    w = np.repeat(centre[None], len(rows), axis=0)
    loss = _loss(seen, mask, w, pull)
    for _ in range(STEPS):
        step = _newton(seen, mask, w, pull)
        edge = np.maximum(-step.min(axis=1, keepdims=True, initial=0), 1e-300)
        size = np.minimum(1.0, TO_THE_EDGE / edge)
        for _ in range(STEPS):
            tried = w * (1 + size * step)
            tried /= tried.sum(axis=1, keepdims=True)
            new = _loss(seen, mask, tried, pull)
            worse = new > loss + 1e-12 * np.abs(loss)
            if not worse.any():
                break
            size = np.where(worse[:, None], size / 2, size)
        moved = np.abs(tried - w).max(initial=0)
        w, loss = tried, new
        if moved < CLOSE:
            break
    return w


def _newton(rows: Doubles, mask: NDArray[np.bool_], w: Doubles, pull: Doubles) -> Doubles:
    # In steps relative to w (w → w (1 + y)) the prior's curvature is diag(pull), however close w is
    # to the edge. The step solves H y = −g + ν w with w·y = 0, which keeps Σ w.
    p = np.where(mask, expit(-np.einsum("umb,ub->um", rows, w)), 0.0)
    scaled = rows * w[:, None]
    slope = -np.einsum("um,umb->ub", p, scaled) - pull
    curve = scaled.transpose(0, 2, 1) @ (scaled * (p * (1 - p))[..., None]) + np.diag(pull)
    solved = np.linalg.solve(curve, np.stack([-slope, w], axis=-1))
    free, kept = solved[..., 0], solved[..., 1]
    multiplier = (w * free).sum(axis=1) / (w * kept).sum(axis=1)
    return np.asarray(free - multiplier[:, None] * kept)


def _loss(rows: Doubles, mask: NDArray[np.bool_], w: Doubles, pull: Doubles) -> Doubles:
    margins = np.einsum("umb,ub->um", rows, w)
    likely = np.where(mask, np.logaddexp(0, -margins), 0.0).sum(axis=1)
    return np.asarray(likely - np.log(w) @ pull)


@one_blas_thread()
def weights_of_users(
    choices: Choices, rows: Doubles, centre: Doubles, concentration: float
) -> Doubles:
    """Return every user's w (users × B); `rows` (n × B) are the choices' margins by prototype."""
    found = np.repeat(centre[None], choices.users, axis=0)
    for block in narrowed(choices, rows).blocks(NUMBERS):
        found[block.users] = simplex_weights(block.differences, block.mask, centre, concentration)
    return found


def logits(weights: Doubles) -> Doubles:
    """Return θ with softmax(θ) = weights."""
    return np.asarray(np.log(np.maximum(weights, 1e-12)))


def mean_weights(weights: Doubles) -> Doubles:
    """Return the users' mean (B), no number of it below `FLOOR`."""
    mean = weights.mean(axis=0) + FLOOR
    return np.asarray(mean / mean.sum())
