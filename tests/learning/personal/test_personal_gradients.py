"""Every joint loss against finite differences of itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from shrunk import CASES
from worlds import Size

from palate.learning.methods.pref import joint_loss

TINY = Size(seen=4, new=1, choices=3, tests=1, width=5)
OPTIONS = {"strength": 0.7, "concentration": 1.3, "components": 4}


def problem(name: str) -> tuple[Callable[..., Any], list[np.ndarray]]:
    """Return a method's joint loss on a tiny world, and arrays to take it at."""
    method, stream = CASES[name].method, np.random.default_rng(3)
    choices = CASES[name].world(0, TINY).seen
    head = stream.normal(size=5)
    options = {**method.defaults, **OPTIONS}
    model = method.begin(choices, head, options, (0, 0))
    if name == "pref":
        loss, arrays = joint_loss(choices, head, 0.7, 6), [model.psi, np.zeros((4, 6))]
    else:
        model = model.changed(shares=stream.dirichlet(np.ones(len(model.shares))))
        loss = model.with_prior(model.joint(choices, head))
        arrays = [getattr(model, field) for field in model.fitted]
        arrays.append(np.zeros((4, len(model.shares))))
    return loss, [array + stream.normal(size=array.shape) for array in arrays]


@pytest.mark.parametrize("name", CASES)
def test_gradients_are_those_of_the_loss(name: str) -> None:
    loss, arrays = problem(name)
    _, gradients = loss(*arrays)
    step = 1e-6
    for which, array in enumerate(arrays):
        for place in np.ndindex(array.shape):
            values = []
            for sign in (1, -1):
                moved = [one.copy() for one in arrays]
                moved[which][place] += sign * step
                values.append(loss(*moved)[0])
            slope = (values[0] - values[1]) / (2 * step)
            assert gradients[which][place] == pytest.approx(slope, abs=1e-6, rel=1e-5)
