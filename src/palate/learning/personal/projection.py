"""Choices seen along a few directions: the d numbers of a choice become a few."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from palate.learning.personal.choices import Choices, Doubles
from palate.learning.personal.protocol import Model, States, take

NUMBERS = 2**22
"""Numbers of wide vectors converted to float64 at a time (32 MiB)."""


def pieces(count: int, width: int) -> Iterator[slice]:
    """Yield slices of `count` rows, each of at most `NUMBERS` numbers.

    >>> list(pieces(3, 2**21))
    [slice(0, 2, None), slice(2, 4, None)]
    """
    size = max(1, NUMBERS // max(1, width))
    for first in range(0, count, size):
        yield slice(first, first + size)


def along(choices: Choices, basis: Doubles) -> Doubles:
    """Return V'(φ(chosen) − φ(rejected)) of every choice (n × B) for a basis V (d × B)."""
    found = np.empty((len(choices), basis.shape[1]))
    for piece in pieces(len(choices), choices.width):
        chosen, rejected = choices.chosen[piece], choices.rejected[piece]
        rows = choices.features[chosen] - choices.features[rejected]
        found[piece] = rows.astype(np.float64) @ basis
    return found


def narrowed(choices: Choices, rows: Doubles) -> Choices:
    """Return choices of the same users whose differences are `rows` (n × B)."""
    n = len(choices)
    table = np.zeros((n + 1, rows.shape[1]), np.float32)
    table[:n] = rows
    return Choices(table, choices.user, np.arange(n), np.full(n, n), choices.users)


def sums_by_user(choices: Choices) -> Any:
    """Return the sparse matrix (users × n) that adds up what belongs to a user."""
    n = len(choices)
    return csr_array((np.ones(n), (choices.user, np.arange(n))), shape=(choices.users, n))


def margins(model: Model, states: States, choices: Choices) -> Doubles:
    """Return score(chosen) − score(rejected) of every choice (n), each under its user's state."""
    margins = np.empty(len(choices))
    for piece in pieces(len(choices), 2 * choices.width):
        chosen, rejected = choices.chosen[piece], choices.rejected[piece]
        pairs = np.stack([choices.features[chosen], choices.features[rejected]], axis=1)
        prompts = None if choices.prompts is None else choices.prompts[chosen]
        scores = model.score(take(states, choices.user[piece]), pairs, prompts)
        margins[piece] = scores[:, 0] - scores[:, 1]
    return margins
