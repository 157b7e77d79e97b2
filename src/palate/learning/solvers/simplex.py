"""Weights on the simplex for many users: one convex Newton job for all.

Per user, argmin over w ≥ 0, Σ w = 1 of Σᵢ softplus(−Pᵢ·w) − c Σ_k w̄_k log w_k: the choices'
likelihood under a Dirichlet-shaped prior whose mode is w̄. The problem is convex and its answer lies
inside the simplex, however separable the choices; without choices it is w̄.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from palate.learning.personal.choices import Choices, Doubles
from palate.learning.personal.projection import NUMBERS, narrowed
from palate.learning.solvers.newton import search
from palate.learning.solvers.threads import one_blas_thread

TO_THE_EDGE = 0.9
"""Share of the way to the edge that a step may go."""
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

    def loss(w: Doubles) -> Doubles:
        likely = np.where(mask, np.logaddexp(0, -np.einsum("umb,ub->um", seen, w)), 0.0)
        return np.asarray(likely.sum(axis=1) - np.log(w) @ pull)

    def step(w: Doubles) -> Doubles:
        # Relative to w (w → w (1 + y)) the prior's curvature is diag(pull), however close w is to
        # the edge. The step solves H y = −g + ν w with w·y = 0, which keeps Σ w.
        p = np.where(mask, expit(-np.einsum("umb,ub->um", seen, w)), 0.0)
        scaled = seen * w[:, None]
        slope = -np.einsum("um,umb->ub", p, scaled) - pull
        curve = scaled.transpose(0, 2, 1) @ (scaled * (p * (1 - p))[..., None]) + np.diag(pull)
        solved = np.linalg.solve(curve, np.stack([-slope, w], axis=-1))
        free, held = solved[..., 0], solved[..., 1]
        multiplier = (w * free).sum(axis=1) / (w * held).sum(axis=1)
        inside = free - multiplier[:, None] * held
        edge = np.maximum(-inside.min(axis=1, keepdims=True, initial=0), 1e-300)
        return np.asarray(np.minimum(1.0, TO_THE_EDGE / edge) * inside)

    def move(w: Doubles, step: Doubles) -> Doubles:
        moved = w * (1 + step)
        return np.asarray(moved / moved.sum(axis=1, keepdims=True))

    return search(np.repeat(centre[None], len(rows), axis=0), step, loss, move)


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
