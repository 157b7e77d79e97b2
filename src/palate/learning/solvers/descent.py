"""Several arrays fitted at once by L-BFGS (Byrd, Lu, Nocedal and Zhu, 1995)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from scipy.optimize import minimize

from palate.learning.personal.choices import Doubles

Loss = Callable[..., tuple[float, Sequence[Doubles]]]
STEPS, SMALL = 200, 1e-7


def minimise(
    loss: Loss, start: Sequence[Doubles], lowest: Sequence[float | None] | None = None
) -> tuple[list[Doubles], float]:
    """Return arrays at a minimum of `loss(*arrays) → (value, gradients)`, and the value there.

    `lowest` bounds every number of an array from below. The search ends after 200 steps, or once a
    step lowers the loss by less than 1e-7 of it.

    >>> square = lambda x: (float(((x - 3) ** 2).sum()), [2 * (x - 3)])
    >>> found, value = minimise(square, [np.zeros(2)])
    >>> found[0].round(3), round(value, 6)
    (array([3., 3.]), 0.0)
    """
    shapes = [array.shape for array in start]
    ends = np.cumsum([array.size for array in start])[:-1]

    def unpacked(x: Doubles) -> list[Doubles]:
        return [part.reshape(shape) for part, shape in zip(np.split(x, ends), shapes, strict=True)]

    def flat(x: Doubles) -> tuple[float, Doubles]:
        value, gradients = loss(*unpacked(x))
        return value, np.concatenate([gradient.ravel() for gradient in gradients])

    bounds = None
    if lowest is not None:
        bounds = [
            (low, None) for low, array in zip(lowest, start, strict=True) for _ in range(array.size)
        ]
    first = np.concatenate([array.ravel() for array in start])
    found = minimize(
        flat,
        first,
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
        options={"maxiter": STEPS, "ftol": SMALL, "maxcor": 20},
    )
    return unpacked(np.asarray(found.x)), float(found.fun)
