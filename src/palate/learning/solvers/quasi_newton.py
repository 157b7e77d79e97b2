"""Many smooth functions minimised side by side, each by its own L-BFGS (Nocedal 1980).

One evaluation serves all that still move, so a model that is costly to call reads the users' rows
in full batches; each function's path is its own and does not depend on its neighbours.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from palate.learning.personal.choices import Doubles, Whole

Objective = Callable[[Whole, Doubles], tuple[Doubles, Doubles]]
"""(which functions a, points a × d) → (values a, gradients a × d)."""
MEMORY = 8
"""Steps whose curvature is remembered."""
FIRST = 1.0
"""Largest norm of the first step."""
ENOUGH = 1e-4
"""Share of what the slope promises that a step must keep (Armijo)."""
SMALLEST = 1e-4
"""A step cut to this share of its length has failed."""


def minimise_each(
    objective: Objective, start: Doubles, *, rounds: int = 100, close: float = 1e-4
) -> tuple[Doubles, Doubles]:
    """Return points (n × d) near a minimum of each function, and the values there (n).

    A function rests once an accepted step lowers it by less than `close` × (1 + its value), or no
    step lowers it; all rest after `rounds` evaluations beside the first. What is returned is never
    higher than the start.

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
    moving = norm[:, 0] > 1e-12
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
        moving[taken] = gained > close * (1 + np.abs(value[taken]))
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
        kept = curve > 1e-10 * (steps**2).sum(axis=1)  # else the function bends down there
        which = which[kept]
        for array, new in (
            (self.steps, steps[kept]),
            (self.turns, turns[kept]),
            (self.inverse, 1 / curve[kept]),
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
