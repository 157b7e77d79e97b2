"""Heads per user and mixtures reach the oracle of planted worlds."""

import numpy as np
from heads import linear_world, margins_of

from palate.learning.methods import UserHeads
from palate.learning.methods.mixture import MixtureOfHeads

D = 12


def test_heads_per_user_reach_the_oracle_with_enough_choices():
    heads = np.random.default_rng(3).normal(size=(40, D)) * 8
    world = linear_world(heads, each=800, seed=4)
    model = UserHeads.fit(world.train)
    reached = world.accuracy(margins_of(model, model.adapt(world.train), world.test))
    assert reached - 0.5 >= 0.95 * 0.5


def test_the_mixture_finds_its_groups_and_whom_they_hold():
    stream = np.random.default_rng(5)
    groups = stream.normal(size=(3, D)) * 10
    member = stream.integers(3, size=90)
    world = linear_world(groups[member], each=150, seed=6)
    model = MixtureOfHeads.fit(world.train, heads=3, concentration=0.5)
    reached = world.accuracy(margins_of(model, model.adapt(world.train), world.test))
    assert reached - 0.5 >= 0.95 * 0.5
    shares = model.adapt(world.train)["shares"]
    top = shares.argmax(axis=1)
    assert all(len(set(top[member == group])) == 1 for group in range(3))
