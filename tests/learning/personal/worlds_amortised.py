"""Worlds whose truth is known: users of one kind, their choices, and fresh pairs to be foretold."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from palate.learning.personal import Choices, Model, States, take
from palate.seeding import rng

Doubles = NDArray[np.float64]


class People(NamedTuple):
    """Some users: what they chose, and later choices between responses that nobody has seen."""

    choices: Choices
    later: Choices
    odds: Doubles
    """True log-odds of each later choice."""

    @property
    def oracle(self) -> float:
        """Accuracy of the true rewards on the later choices, which are noisy."""
        return float(np.mean(self.odds > 0))


def people(rewards: Doubles, table: Doubles, n: int, later: int, *seed: object) -> People:
    """Let each user (rewards: u × m) choose between n pairs of the first half of the table's
    responses, and between `later` pairs of the second half; P = σ(difference of rewards)."""
    stream, half = rng("people", *seed), len(table) // 2
    features = table.astype(np.float32)
    first, odds = _chosen(rewards, features, stream, n, 0, half)
    fresh, odds = _chosen(rewards, features, stream, later, half, len(table))
    return People(first, fresh, odds)


def _chosen(rewards, features, stream, n, low, high):
    users = len(rewards)
    user = np.repeat(np.arange(users), n)
    one = stream.integers(low, high, len(user))
    other = low + (one - low + stream.integers(1, high - low, len(user))) % (high - low)
    odds = rewards[user, one] - rewards[user, other]
    first = stream.random(len(user)) < expit(odds)
    chosen, rejected = np.where(first, one, other), np.where(first, other, one)
    return Choices(features, user, chosen, rejected, users), np.where(first, odds, -odds)


def vectors(m: int, d: int, *seed: object) -> Doubles:
    """Return m vectors of mean square length 1, as `Scaling` leaves them."""
    return rng("vectors", *seed).standard_normal((m, d)) / np.sqrt(d)


def latent_users(
    table: Doubles, users: int, latent: int, size: float, *seed: object, hidden: int | None = None
) -> Doubles:
    """Return rewards (u × m) of users z ~ N(0, I): z decodes to weights of the vectors, or, with
    `hidden`, of the hidden numbers of a random one-layer network. All like some things alike.

    The decoder depends on the table's shape alone, so two calls give people of one world.
    """
    stream = rng("decoder", *table.shape, latent, hidden)
    shown = table
    if hidden is not None:
        shown = np.tanh(1.5 * table @ stream.standard_normal((table.shape[1], hidden)))
        shown = shown / np.sqrt(hidden)
    decoder = stream.standard_normal((latent, shown.shape[1])) / np.sqrt(latent)
    alike = 0.7 * stream.standard_normal(shown.shape[1])
    z = rng("z", *seed).standard_normal((users, latent))
    return size * (alike + z @ decoder) @ shown.T


def gaussian_users(
    table: Doubles, users: int, size: float, reach: float, *seed: object, linear: float = 0.5
) -> Doubles:
    """Return rewards (u × m) drawn from a Gaussian process with an RBF and a linear kernel.

    k(a, b) = size² ((1 − linear) exp(−|a − b|² / (2 reach²)) + linear a·b), mean: a head for all.
    """
    square = ((table[:, None] - table[None]) ** 2).sum(axis=-1)
    kernel = (1 - linear) * np.exp(-square / (2 * reach**2)) + linear * table @ table.T
    root = np.linalg.cholesky(kernel + 1e-6 * np.eye(len(table)))
    alike = rng("alike", *table.shape).standard_normal(table.shape[1])
    draws = rng("gaussian", *seed).standard_normal((users, len(table))) @ root.T
    return size * (0.7 * table @ alike + draws)


def accuracy(model: Model, states: States, later: Choices) -> float:
    """Return how often the model foretells a choice; ties count half."""
    pairs = np.stack([later.features[later.chosen], later.features[later.rejected]], axis=1)
    scores = model.score(take(states, later.user), pairs)
    return float(np.mean(np.sign(scores[:, 0] - scores[:, 1]) + 1) / 2)


def share_of_oracle(model: Model, states: States, whom: People) -> float:
    """Return (accuracy − ½) / (accuracy of the true rewards − ½)."""
    return (accuracy(model, states, whom.later) - 0.5) / (whom.oracle - 0.5)
