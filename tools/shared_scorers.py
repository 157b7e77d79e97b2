"""Scorers whose accuracy is known, drawn many at once, for `cover_on_shared.py`.

Every draw is a world: users, questions, texts and scorers are drawn anew, who answers what stays.
A row is right where a normal number of mean `LEVEL` and variance 1 is above 0, so that the truth is
Φ(LEVEL) in every design; its variance is shared out among users, questions, texts and the row.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr
from shared_designs import Design

from palate.metrics.arrays import FloatArray, IntArray
from palate.metrics.estimates import GAIN, UNIT

LEVEL = 0.4
ACCURATE = float(ndtr(LEVEL))
SKEWED_LEVEL = 1.0
READS_USERS = 0.534
"""Mean accuracy on couples of scorers that are better on some questions than on others."""
TASTES = 3
"""Dimensions of the vectors of users and of texts."""
TOGETHER = 0.5
"""Share of the variance of a planted choice that is the same for all users."""


class World(NamedTuple):
    """A design with its stream of random numbers and how many draws are made at once."""

    design: Design
    stream: np.random.Generator
    draws: int

    def effect(self, codes: IntArray, variance: float, dimensions: int = 0) -> FloatArray:
        """Normal effects by user or question, shape (rows, draws), or with dimensions last."""
        shape = (int(codes.max()) + 1, self.draws) + (dimensions,) * bool(dimensions)
        return (np.sqrt(variance) * self.stream.standard_normal(shape))[codes]

    def noise(self, variance: float) -> FloatArray:
        """Normal noise of each row."""
        shape = (len(self.design.clusters), self.draws)
        return np.sqrt(variance) * self.stream.standard_normal(shape)

    def pull(self, variance: float, dimensions: int = 0) -> FloatArray:
        """What speaks for the first response against the second, as normal numbers by text."""
        first, second = self.design.texts
        size = max(int(first.max()), int(second.max())) + 1
        shape = (size, self.draws) + (dimensions,) * bool(dimensions)
        texts = np.sqrt(variance / 2) * self.stream.standard_normal(shape)
        return texts[first] - texts[second]

    def sides(self) -> FloatArray:
        """1 where the first response is chosen, -1 where the second."""
        if self.design.fixed_choices:
            return np.ones((len(self.design.clusters), 1))
        return np.sign(self.pull(TOGETHER) + self.noise(1 - TOGETHER))


class Shares(NamedTuple):
    """Shares of a scorer's variance; the rest is the row's."""

    users: float
    questions: float
    texts: float


ALL = Shares(0.1, 0.1, 0.2)
QUESTIONS, DIFFERENCE = "questions", "difference"


class Kind(NamedTuple):
    """A kind of scorer: its values by row and draw, and what they are on average."""

    name: str
    values: Callable[[World], FloatArray]
    truth: float
    mark: str = ""
    """`QUESTIONS`: of several questions only; `DIFFERENCE`: of two of which neither is better."""

    @property
    def difference(self) -> bool:
        """Whether the values are differences of two scorers of which neither is better."""
        return self.mark == DIFFERENCE

    @property
    def needs_questions(self) -> bool:
        """Whether the scorer is nothing without several questions."""
        return self.mark == QUESTIONS

    @property
    def null_and_bounds(self) -> tuple[float, tuple[float, float]]:
        """What p tests against, and the range of the values."""
        return (0.0, GAIN) if self.difference else (0.5, UNIT)


def blind(world: World, sides: FloatArray | None = None) -> FloatArray:
    """Give every response a random score, the same for all users."""
    sides = world.sides() if sides is None else sides
    return _right(sides * world.pull(1.0))


def vectors(world: World) -> FloatArray:
    """Multiply a random vector of the user by one of the text."""
    (users,) = world.design.clusters.users
    wanted = world.effect(users, 1.0, TASTES)
    margins = np.einsum("ndk,ndk->nd", wanted, world.pull(1.0, TASTES))
    return _right(world.sides() * margins)


def opposed(world: World) -> FloatArray:
    """Plant one score for all, where users of a question want opposite things by turns."""
    (users,) = world.design.clusters.users
    questions = world.design.questions
    order = np.argsort(questions, kind="stable")
    camps = np.empty(users.size)
    camps[order] = 1.0 - 2.0 * (np.arange(users.size) % 2)
    scores = camps[:, None] * world.effect(questions, 0.6)
    return _right(LEVEL + world.effect(users, 0.1) + scores + world.noise(0.3))


def effects(world: World, shares: Shares, level: float = LEVEL) -> FloatArray:
    """Share out the variance among users, questions, texts and the rows themselves."""
    return _right(level + _latent(world, world.sides(), shares))


def two_blind(world: World) -> FloatArray:
    """Take one scorer of random texts from another."""
    sides = world.sides()
    return blind(world, sides) - blind(world, sides)


def two_of(world: World, shares: Shares, level: float = LEVEL) -> FloatArray:
    """Take one scorer with effects of users, questions and texts from another."""
    sides = world.sides()
    first, second = (_latent(world, sides, shares) for _ in range(2))
    return _right(level + first) - _right(level + second)


def no_gain(world: World) -> FloatArray:
    """Take a scorer under one context from itself under another, most verdicts unchanged."""
    sides = world.sides()
    common = np.sqrt(0.8) * _latent(world, sides, ALL)
    first, second = (
        np.sqrt(0.2) * _latent(world, sides, Shares(0.25, 0.25, 0.25)) for _ in range(2)
    )
    return _right(LEVEL + common + first) - _right(LEVEL + common + second)


def couples_by_question(world: World, spread: float) -> FloatArray:
    """Be right on either row of a couple with a probability drawn by question."""
    chance = READS_USERS + world.effect(world.design.questions, spread**2)
    rows = world.stream.random((2, *chance.shape))
    return np.asarray((rows < chance).mean(axis=0))


def couples_of_all(world: World) -> FloatArray:
    """Return couples' values of scorers with effects of users, questions and texts."""
    first, second = world.design.clusters.users
    size = max(int(first.max()), int(second.max())) + 1
    users = np.sqrt(ALL.users) * world.stream.standard_normal((size, world.draws))
    by_question = ALL.questions * world.design.many_questions
    question = world.effect(world.design.questions, by_question)
    # What speaks for a response helps one user of a couple and harms the other.
    blind = world.pull(ALL.texts)
    rest = 1 - ALL.users - ALL.texts - by_question
    ours = _right(LEVEL + users[first] + question + blind + world.noise(rest))
    theirs = _right(LEVEL + users[second] + question - blind + world.noise(rest))
    return (ours + theirs) / 2


def two_on_couples(world: World) -> FloatArray:
    """Take one scorer with all effects from another, over couples."""
    return couples_of_all(world) - couples_of_all(world)


ON_ROWS = (
    Kind("random texts", blind, 0.5),
    Kind("user × text vectors", vectors, 0.5),
    Kind("user effects", partial(effects, shares=Shares(0.15, 0, 0)), ACCURATE),
    Kind("question effects", partial(effects, shares=Shares(0, 0.15, 0)), ACCURATE, QUESTIONS),
    Kind("user, question, text effects", partial(effects, shares=ALL), ACCURATE),
    Kind("users opposed", opposed, ACCURATE, QUESTIONS),
    Kind("two of random texts", two_blind, 0.0, DIFFERENCE),
    Kind("two with all effects", partial(two_of, shares=ALL), 0.0, DIFFERENCE),
    Kind("a gain of nothing", no_gain, 0.0, DIFFERENCE),
)
ON_COUPLES = (
    Kind("couples, all alike", partial(couples_by_question, spread=0), READS_USERS),
    *(
        Kind(
            f"couples, question effects of sd {spread}",
            partial(couples_by_question, spread=spread),
            READS_USERS,
            QUESTIONS,
        )
        for spread in (0.023, 0.046, 0.092)
    ),
    Kind("couples, all effects", couples_of_all, ACCURATE),
    Kind("couples, two with all effects", two_on_couples, 0.0, DIFFERENCE),
)
SKEWED = (
    Kind(
        "users apart",
        partial(effects, shares=Shares(0.5, 0, 0), level=SKEWED_LEVEL),
        float(ndtr(SKEWED_LEVEL)),
    ),
    Kind(
        "questions apart",
        partial(effects, shares=Shares(0, 0.5, 0), level=SKEWED_LEVEL),
        float(ndtr(SKEWED_LEVEL)),
    ),
    Kind(
        "two with users apart",
        partial(two_of, shares=Shares(0.5, 0, 0), level=SKEWED_LEVEL),
        0.0,
        DIFFERENCE,
    ),
)
"""Scorers right for most users (on most questions) and wrong for a few: a skewed distribution."""


def kinds_for(design: Design) -> list[Kind]:
    """Return the kinds of scorer that can be planted in a design."""
    kinds = ON_COUPLES if design.clusters.couples else ON_ROWS
    # One question is all there is: what it does to a scorer is then part of the truth.
    return [kind for kind in kinds if design.many_questions or not kind.needs_questions]


def _latent(world: World, sides: FloatArray, shares: Shares) -> FloatArray:
    (users,) = world.design.clusters.users
    by_question = shares.questions * world.design.many_questions
    total = world.noise(1 - shares.users - by_question - shares.texts)
    if shares.users:
        total += world.effect(users, shares.users)
    if by_question:
        total += world.effect(world.design.questions, by_question)
    if shares.texts:
        total += sides * world.pull(shares.texts)
    return total


def _right(margins: FloatArray) -> FloatArray:
    return (margins > 0).astype(np.float64)
