"""Numerical jobs of the methods: many small fits at once by Newton or L-BFGS, one fit of arrays.

Newton: per user, argmin over δ of Σ softplus(−(gᵢ + Dᵢ·δ)) + |δ|² / (2 τ²), or over w ≥ 0, Σ w = 1
of Σᵢ softplus(−Pᵢ·w) − c Σ_k w̄_k log w_k, the choices' likelihood under a Dirichlet-shaped prior
whose mode is w̄. Both are convex and have one answer, finite or inside the simplex, however
separable the choices; without choices it is 0, or w̄.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
from scipy.special import expit
from threadpoolctl import get_cached_controller

from palate.learning.choices import Doubles, Mask, Reals, Whole

LARGE = 2**24
"""From so many float64 numbers on (128 MiB) a product keeps every thread busy."""
_limited = threading.Lock()
Loss = Callable[..., tuple[float, Sequence[Doubles]]]
Objective = Callable[[Whole, Doubles], tuple[Doubles, Doubles]]
"""(which functions a, points a × d) → (values a, gradients a × d)."""
NEWTON_STEPS, CLOSE = 100, 1e-9
TO_THE_EDGE = 0.9
"""Share of the way to the edge that a step may go."""
DESCENT_STEPS, SMALL = 200, 1e-7
MEMORY = 8
"""Steps whose curvature is remembered."""
FIRST = 1.0
"""Largest norm of the first step."""
ENOUGH = 1e-4
"""Share of what the slope promises that a step must keep (Armijo)."""
SMALLEST = 1e-4
"""A step cut to this share of its length has failed."""


@contextmanager
def one_blas_thread(largest: int = 0) -> Iterator[None]:
    """Limit BLAS to one thread within the block, unless its largest matrix has `LARGE` numbers.

    A BLAS divides every product over its threads, and those that have nothing to do spin until the
    next. Where many small systems are solved one after another they cost more than they save.
    The limit holds for the whole process, and only the first of several blocks sets and lifts it;
    what overlaps in another Python thread may go on with more. torch's threads are let alone.

    >>> from threadpoolctl import threadpool_info
    >>> with one_blas_thread():
    ...     {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"} <= {1}
    True
    """
    # Were each block to restore what it met, the last of two that overlap would leave one thread.
    if largest >= LARGE or not _limited.acquire(blocking=False):
        yield
        return
    try:
        with get_cached_controller().limit(limits=1, user_api="blas"):
            yield
    finally:
        _limited.release()


def ridge_offsets(differences: Reals, mask: Mask, margins: Doubles, variance: float) -> Doubles:
    """Return δ (u × d) from differences (u × m × d), mask and margins g (u × m), and τ².

    With fewer choices than numbers it is solved over the choices (δ = τ² Dᵀa, aᵢ = σ(−marginᵢ) at
    the optimum), else over the numbers.

    >>> d = np.array([[[1.0], [1.0]]])
    >>> ridge_offsets(d, np.array([[True, False]]), np.zeros((1, 2)), 1.0).round(4)
    array([[0.4011]])
    """
    rows = np.where(mask[..., None], differences, 0.0).astype(np.float64)
    if rows.shape[1] <= rows.shape[2]:
        a = _over_choices(rows, mask, margins, variance)
        return np.asarray(variance * np.einsum("um,umd->ud", a, rows))
    return _over_numbers(rows, mask, margins, variance)


def _over_choices(rows: Doubles, mask: Mask, margins: Doubles, variance: float) -> Doubles:
    gram, eye = variance * rows @ rows.transpose(0, 2, 1), np.eye(rows.shape[1])

    def loss(a: Doubles) -> Doubles:
        moved = _times(gram, a)
        return np.asarray(_loss(margins + moved, mask) + 0.5 * (a * moved).sum(axis=1))

    def step(a: Doubles) -> Doubles:
        p = np.where(mask, expit(-(margins + _times(gram, a))), 0.0)
        curve = p * (1 - p)
        return _solved(eye + curve[..., None] * gram, p - a)

    return search(np.zeros(margins.shape), step, loss)


def _over_numbers(rows: Doubles, mask: Mask, margins: Doubles, variance: float) -> Doubles:
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
    for _ in range(NEWTON_STEPS):
        whole, size = step(x), np.ones((len(x), 1))
        for _ in range(NEWTON_STEPS):
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


def _loss(margins: Doubles, mask: Mask) -> Doubles:
    return np.asarray(np.where(mask, np.logaddexp(0, -margins), 0.0).sum(axis=1))


def _solved(curve: Doubles, slope: Doubles) -> Doubles:
    return np.asarray(np.linalg.solve(curve, slope[..., None])[..., 0])


def _times(gram: Doubles, a: Doubles) -> Doubles:
    return np.asarray(np.einsum("umn,un->um", gram, a))


def simplex_weights(rows: Reals, mask: Mask, centre: Doubles, concentration: float) -> Doubles:
    """Return w (u × B) from P (u × m × B), mask (u × m), w̄ (B) and c.

    >>> p = np.array([[[2.0, 0.0]]])
    >>> simplex_weights(p, np.array([[True]]), np.array([0.5, 0.5]), 1.0).round(3)
    array([[0.609, 0.391]])
    """
    seen = np.where(mask[..., None], rows, 0.0).astype(np.float64)
    pull = concentration * centre

    def loss(w: Doubles) -> Doubles:
        return np.asarray(_loss(np.einsum("umb,ub->um", seen, w), mask) - np.log(w) @ pull)

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


def minimise(
    loss: Loss, start: Sequence[Doubles], lowest: Sequence[float | None] | None = None
) -> tuple[list[Doubles], float]:
    """Return arrays at a minimum of `loss(*arrays) → (value, gradients)`, and the value there.

    By L-BFGS (Byrd, Lu, Nocedal and Zhu, 1995). `lowest` bounds every number of an array from
    below. The search ends after 200 steps, or once a step lowers the loss by less than 1e-7 of it.

    >>> square = lambda x: (float(((x - 3) ** 2).sum()), [2 * (x - 3)])
    >>> arrays, value = minimise(square, [np.zeros(2)])
    >>> arrays[0].round(3), round(value, 6)
    (array([3., 3.]), 0.0)
    """
    shapes = [array.shape for array in start]
    ends = np.cumsum([array.size for array in start])[:-1]

    def unpacked(x: Doubles) -> list[Doubles]:
        return [part.reshape(shape) for part, shape in zip(np.split(x, ends), shapes, strict=True)]

    def flat(x: Doubles) -> tuple[float, Doubles]:
        value, gradients = loss(*unpacked(x))
        return value, np.concatenate([gradient.ravel() for gradient in gradients])

    from scipy.optimize import minimize  # slow to import

    bounds = None
    if lowest is not None:
        sizes = zip(lowest, start, strict=True)
        bounds = [(low, None) for low, array in sizes for _ in range(array.size)]
    first = np.concatenate([array.ravel() for array in start])
    optimum = minimize(
        flat,
        first,
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
        options={"maxiter": DESCENT_STEPS, "ftol": SMALL, "maxcor": 20},
    )
    return unpacked(np.asarray(optimum.x)), float(optimum.fun)


def minimise_each(
    objective: Objective, start: Doubles, *, rounds: int = 100, close: float = 1e-4
) -> tuple[Doubles, Doubles]:
    """Return points (n × d) near a minimum of each function, and the values there (n).

    Each by its own L-BFGS (Nocedal 1980). One evaluation serves all that still move, so a model
    that is costly to call reads users' rows in full batches; no path depends on its neighbours.

    A function rests once two accepted steps in a row lower it by less than `close` × (1 + its
    value) each, or no step lowers it; all rest after `rounds` evaluations beside the first. What is
    returned is never higher than the start.

    >>> def squares(which, x):
    ...     apart = x - np.arange(3.0)[which, None]
    ...     return (apart**2).sum(axis=1), 2 * apart
    >>> minimise_each(squares, np.zeros((3, 2)))[0].round(3).tolist()
    [[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]]
    """
    n, width = start.shape
    best = start.copy()
    if not n:
        return best, np.zeros(0)
    value, gradient = objective(np.arange(n), best)
    memory = _Memory(n, width)
    norm = np.linalg.norm(gradient, axis=1, keepdims=True)
    step = -gradient * np.minimum(1.0, FIRST / np.maximum(norm, 1e-12))
    share = np.ones(n)
    moving, small = norm[:, 0] > 1e-12, np.zeros(n)
    for _ in range(rounds):
        which = np.flatnonzero(moving)
        if not len(which):
            break
        tried = best[which] + share[which, None] * step[which]
        new, slope = objective(which, tried)
        promised = share[which] * (gradient[which] * step[which]).sum(axis=1)
        good = np.isfinite(new) & (new <= value[which] + ENOUGH * promised)
        taken, failed = which[good], which[~good]
        memory.add(taken, tried[good] - best[taken], slope[good] - gradient[taken])
        gained = value[taken] - new[good]
        best[taken], value[taken], gradient[taken] = tried[good], new[good], slope[good]
        little = gained <= close * (1 + np.abs(value[taken]))
        small[taken] = np.where(little, small[taken] + 1, 0)
        moving[taken] = small[taken] < 2  # rounding alone makes one
        step[taken] = memory.direction(taken, gradient[taken])
        share[taken] = 1.0
        share[failed] *= _cut(new[~good] - value[failed], promised[~good])
        moving[failed] = share[failed] > SMALLEST
    return best, value


def _cut(rise: Doubles, promised: Doubles) -> Doubles:
    # Where the parabola through both values and the slope is lowest, within reason.
    bent = 2 * (rise - promised)
    lowest = np.where(np.isfinite(bent) & (bent > 0), -promised / np.where(bent > 0, bent, 1), 0.1)
    return np.asarray(np.clip(lowest, 0.1, 0.5))


class _Memory:
    """The latest steps and changes of slope of each function, oldest first."""

    def __init__(self, n: int, width: int) -> None:
        self.steps = np.zeros((MEMORY, n, width))
        self.turns = np.zeros((MEMORY, n, width))
        self.inverse = np.zeros((MEMORY, n))
        """1 / (step · turn); 0 where nothing is remembered."""

    def add(self, which: Whole, steps: Doubles, turns: Doubles) -> None:
        curve = (steps * turns).sum(axis=1)
        upward = curve > 1e-10 * (steps**2).sum(axis=1)  # else the function bends down there
        which = which[upward]
        for array, new in (
            (self.steps, steps[upward]),
            (self.turns, turns[upward]),
            (self.inverse, 1 / curve[upward]),
        ):
            array[:-1, which] = array[1:, which]
            array[-1, which] = new

    def direction(self, which: Whole, gradient: Doubles) -> Doubles:
        steps, turns = self.steps[:, which], self.turns[:, which]
        inverse = self.inverse[:, which]
        step = gradient.copy()
        pulls = np.zeros_like(inverse)
        for k in reversed(range(MEMORY)):
            pulls[k] = inverse[k] * (steps[k] * step).sum(axis=1)
            step -= pulls[k][:, None] * turns[k]
        size = (turns[-1] ** 2).sum(axis=1)
        known = inverse[-1] > 0
        scale = np.ones(len(which))
        scale[known] = 1 / (inverse[-1] * np.where(size > 0, size, 1))[known]
        step *= scale[:, None]
        for k in range(MEMORY):
            back = inverse[k] * (turns[k] * step).sum(axis=1)
            step += (pulls[k] - back)[:, None] * steps[k]
        return -step
