"""Synthetic users whose rewards are known, drawn from each method's own model, or bent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from palate.learning.choices import Choices
from palate.learning.encoders import GPO, VPL
from palate.learning.heads import BradleyTerry, MixtureOfHeads, UserHeads
from palate.learning.low_rank import LoRe, PReF
from palate.learning.pal import PALA, PALB
from palate.learning.personal import Model
from palate.learning.shrinkage import margins
from palate.learning.states import States
from palate.seeding import rng

Doubles = NDArray[np.float64]
Reward = Callable[[NDArray[np.int64], Doubles, Doubles], Doubles]
"""(users n, responses n × 2 × d, questions n × d) → rewards n × 2."""


class World(NamedTuple):
    """Choices to learn from and fresh ones to be tested on, of users seen and of new users."""

    seen: Choices
    seen_test: Choices
    new: Choices
    new_test: Choices
    seen_oracle: float
    """How often the true rewards foretell a fresh choice: choices are drawn from σ(difference)."""
    new_oracle: float


class Size(NamedTuple):
    seen: int = 240
    new: int = 60
    choices: int = 80
    tests: int = 200
    width: int = 20


USUAL = Size()
SMALL = Size(seen=40, new=12, choices=25, tests=10, width=8)


def accuracy(model: Model, adapted: Choices, test: Choices) -> float:
    apart = margins(model, model.adapt(adapted), test)
    return float((apart > 0).mean() + 0.5 * (apart == 0).mean())


def lore_world(seed: int = 0, size: Size = USUAL) -> World:
    stream = rng("lore world", seed)
    basis = 5 * stream.normal(size=(size.width, 4))
    weights = stream.dirichlet(np.full(4, 0.3), size=size.seen + size.new)
    heads = weights @ basis.T
    return _world(lambda user, responses, _: _linear(heads[user], responses), size, stream)


def pref_world(seed: int = 0, size: Size = USUAL) -> World:
    stream = rng("pref world", seed)
    psi = 2 * stream.normal(size=(size.width, 3))
    factors = stream.normal([1.0, 0.5, 0.0], 1.0, size=(size.seen + size.new, 3))
    heads = factors @ psi.T
    return _world(lambda user, responses, _: _linear(heads[user], responses), size, stream)


def pal_a_world(seed: int = 0, size: Size = USUAL) -> World:
    stream = rng("pal-a world", seed)
    mapping = stream.normal(size=(3, size.width))
    weights = stream.dirichlet(np.full(4, 0.3), size=size.seen + size.new)
    ideal = weights @ (1.5 * stream.normal(size=(4, 3)))

    def reward(user: NDArray[np.int64], responses: Doubles, questions: Doubles) -> Doubles:
        del questions
        apart = responses @ mapping.T - ideal[user][:, None]
        return np.asarray(-(apart**2).sum(axis=2))

    return _world(reward, size, stream)


def pal_b_world(seed: int = 0, size: Size = USUAL) -> World:
    stream = rng("pal-b world", seed)
    mapping = 2 * stream.normal(size=(2, size.width))
    weights = stream.dirichlet(np.full(3, 0.3), size=size.seen + size.new)
    constant, turning = stream.normal(size=(3, 2)), 1.2 * stream.normal(size=(3, 2, size.width))

    def reward(user: NDArray[np.int64], responses: Doubles, questions: Doubles) -> Doubles:
        each = constant + np.einsum("kqd,nd->nkq", turning, questions)
        ideal = np.einsum("nk,nkq->nq", weights[user], each)
        return np.asarray(np.einsum("ncq,nq->nc", responses @ mapping.T, ideal))

    return _world(reward, size, stream)


def one_taste_world(seed: int = 0, size: Size = USUAL) -> World:
    stream = rng("one taste world", seed)
    head = 3.5 * stream.normal(size=size.width)
    return _world(lambda _, responses, __: responses @ head, size, stream)


def opposed_world(seed: int = 0, size: Size = USUAL) -> World:
    """Return users of one taste or its opposite: one head for all is at chance."""
    stream = rng("opposed world", seed)
    head = 3.5 * stream.normal(size=size.width)
    sign = stream.permutation(np.arange(size.seen + size.new) % 2) * 2 - 1
    return _world(lambda user, responses, _: sign[user][:, None] * (responses @ head), size, stream)


def drawn(
    reward: Reward, users: NDArray[np.int64], each: int, width: int, stream: np.random.Generator
) -> tuple[Choices, float]:
    """Return `each` choices per user, the first user as user 0, and the true rewards' accuracy."""
    place = np.repeat(np.arange(len(users)), each)
    responses = stream.normal(size=(len(place), 2, width)) / np.sqrt(width)
    questions = stream.normal(size=(len(place), width)) / np.sqrt(width)
    rewards = reward(users[place], responses, questions)
    apart = rewards[:, 0] - rewards[:, 1]
    second = stream.random(len(place)) > expit(apart)
    first = 2 * np.arange(len(place))
    choices = Choices(
        responses.reshape(-1, width).astype(np.float32),
        place,
        first + second,
        first + 1 - second,
        len(users),
        np.repeat(questions, 2, axis=0).astype(np.float32),
    )
    return choices, float(((apart > 0) != second).mean())


def _world(reward: Reward, size: Size, stream: np.random.Generator) -> World:
    seen, new = np.arange(size.seen), size.seen + np.arange(size.new)
    learnt, _ = drawn(reward, seen, size.choices, size.width, stream)
    seen_test, seen_oracle = drawn(reward, seen, size.tests, size.width, stream)
    adapted, _ = drawn(reward, new, size.choices, size.width, stream)
    new_test, new_oracle = drawn(reward, new, size.tests, size.width, stream)
    return World(learnt, seen_test, adapted, new_test, seen_oracle, new_oracle)


def _linear(heads: Doubles, responses: Doubles) -> Doubles:
    return np.asarray(np.einsum("nd,ncd->nc", heads, responses))


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


def hit_rate(model: Model, states: States, later: Choices) -> float:
    """Return how often the model foretells a choice; ties count half."""
    return float(np.mean(np.sign(margins(model, states, later)) + 1) / 2)


def share_of_oracle(model: Model, states: States, whom: People) -> float:
    """Return (accuracy − ½) / (accuracy of the true rewards − ½)."""
    return (hit_rate(model, states, whom.later) - 0.5) / (whom.oracle - 0.5)


class Case(NamedTuple):
    method: Any
    world: Callable[..., World]
    quick: dict[str, Any]
    """Options under which nothing is left to choose, for tests of states."""
    near: float = 1e-5
    """How far the state of a user alone may be from that among others, of its largest number."""


_QUICK = {"ridge": 1.0, "strength": 0.1, "starts": 1}
CASES = {
    "lore": Case(LoRe, lore_world, {**_QUICK, "concentration": 1.0, "basis": 4}),
    "pref": Case(PReF, pref_world, {**_QUICK, "dimensions": 4}),
    "pal-a": Case(PALA, pal_a_world, {**_QUICK, "concentration": 1.0, "dimensions": 4}),
    "pal-b": Case(PALB, pal_b_world, {**_QUICK, "concentration": 1.0, "dimensions": 3}),
}
_SHORT = {"hidden": 16, "steps": 60, "rate": 0.01, "ridge": 1.0}
_MIXED = {"heads": 2, "ridge": 1.0, "concentration": 2.0, "starts": 1}
NETWORKS = ("vpl", "gpo")
ALL = {
    **CASES,
    "bradley-terry": Case(BradleyTerry, lore_world, {"ridge": 1.0}, 1e-6),
    "user-heads": Case(UserHeads, lore_world, {"ridge": 1.0, "variance": 1.0}, 1e-6),
    "mixture": Case(MixtureOfHeads, lore_world, _MIXED, 1e-6),
    "vpl": Case(VPL, lore_world, _SHORT, 1e-6),
    "gpo": Case(GPO, lore_world, _SHORT, 1e-6),
}
"""Every method; of the networks a fit needs torch."""
