"""Synthetic users whose rewards are linear heads on random vectors."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from palate.learning.choices import Choices


class World(NamedTuple):
    """Choices to learn from and pairs to judge, drawn from known heads."""

    train: Choices
    test: Choices
    heads: NDArray[np.float64]

    def accuracy(self, margins: NDArray[np.float64]) -> float:
        """Share of test pairs on which a margin has the sign of the true one."""
        truth = np.einsum("nd,nd->n", self.test.differences, self.heads[self.test.user])
        return float(np.mean(np.sign(margins) == np.sign(truth)))


def linear_world(heads: NDArray[np.float64], *, each: int, tests: int = 60, seed: int = 0) -> World:
    """Draw `each` choices per head from σ(w·D), and test pairs without noise."""
    stream = np.random.default_rng(seed)
    d = heads.shape[1]
    table = stream.normal(size=(4000, d)).astype(np.float32) / np.sqrt(d)
    return World(
        _drawn(stream, table, heads, each, noise=True),
        _drawn(stream, table, heads, tests, noise=False),
        heads,
    )


def _drawn(
    stream: np.random.Generator,
    table: NDArray[np.float32],
    heads: NDArray[np.float64],
    each: int,
    *,
    noise: bool,
) -> Choices:
    users = np.repeat(np.arange(len(heads)), each)
    a = stream.integers(len(table), size=len(users))
    b = (a + 1 + stream.integers(len(table) - 1, size=len(users))) % len(table)
    margins = np.einsum("nd,nd->n", table[a] - table[b], heads[users])
    first = stream.random(len(users)) < expit(margins) if noise else margins > 0
    return Choices(
        table, users.astype(np.int64), np.where(first, a, b), np.where(first, b, a), len(heads)
    )
