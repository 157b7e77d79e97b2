"""Synthetic users whose rewards are known, drawn from each method's own model."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from palate.learning.personal import Choices, Model
from palate.learning.personal.projection import margins
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
