"""Every joint loss against finite differences of itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from palate.personal.methods import lore, pal_a, pal_b, pref

N, D, USERS, K, Q, P = 12, 5, 4, 3, 2, 6
STREAM = np.random.default_rng(3)
ROWS, BOTH = STREAM.normal(size=(2, N, D))
ASKED = STREAM.normal(size=(N, P))
USER = np.arange(N) % USERS
SUMS = csr_array((np.ones(N), (USER, np.arange(N))), shape=(USERS, N))
HEAD, SHARES = STREAM.normal(size=D), np.array([0.5, 0.3, 0.2])
OPTIONS = {"strength": 0.7, "concentration": 1.3}
THETA = STREAM.normal(size=(USERS, K))

LOSSES: dict[str, tuple[Any, list[np.ndarray]]] = {
    "lore": (
        lambda *x: lore._joint(ROWS, USER, SUMS, HEAD, OPTIONS, SHARES, *x),
        [STREAM.normal(size=(D, K)), THETA],
    ),
    "pref": (
        lambda *x: pref._joint(ROWS, USER, SUMS, HEAD, 0.7, *x),
        [STREAM.normal(size=(D, K)), STREAM.normal(size=(USERS, K))],
    ),
    "pal-a": (
        lambda *x: pal_a._joint(ROWS, BOTH, USER, SUMS, HEAD, OPTIONS, SHARES, *x),
        [HEAD + 1, STREAM.normal(size=(Q, D)), STREAM.normal(size=(K, Q)), np.array([0.4]), THETA],
    ),
    "pal-b": (
        lambda *x: pal_b._joint(ROWS, ASKED, USER, SUMS, HEAD, OPTIONS, SHARES, *x),
        [HEAD - 1, STREAM.normal(size=(Q, D)), STREAM.normal(size=(K, Q, P)), THETA],
    ),
}


@pytest.mark.parametrize("name", LOSSES)
def test_gradients_are_those_of_the_loss(name: str) -> None:
    loss, arrays = LOSSES[name]
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
            assert gradients[which][place] == pytest.approx(slope, abs=1e-6, rel=1e-6)
