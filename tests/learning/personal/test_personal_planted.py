"""Planted truth: what each method must find in a world of its own making, and in one without."""

from __future__ import annotations

import numpy as np
import pytest
from shrunk import CASES
from worlds import SMALL, Size, accuracy, one_taste_world, opposed_world

from palate.learning.methods.bradley_terry import BradleyTerry
from palate.learning.methods.shrinkage import ALIKE, CONCENTRATIONS, FIRST_CONCENTRATION, STRENGTHS

SHARE = 0.95
"""Of the true rewards' accuracy above chance."""


@pytest.mark.parametrize("name", CASES)
def test_users_seen_and_new_are_judged_almost_as_by_their_true_rewards(name: str) -> None:
    case = CASES[name]
    world = case.world(1)
    model = case.method.fit(world.seen, seed=0)
    seen = accuracy(model, world.seen, world.seen_test)
    new = accuracy(model, world.new, world.new_test)
    assert seen - 0.5 >= SHARE * (world.seen_oracle - 0.5)
    assert new - 0.5 >= SHARE * (world.new_oracle - 0.5)
    # The world is personal: one head for all cannot do it.
    shared = accuracy(BradleyTerry.fit(world.seen), world.new, world.new_test)
    assert shared - 0.5 < 0.9 * (world.new_oracle - 0.5)


@pytest.mark.parametrize("name", CASES)
def test_a_world_of_one_taste_costs_nothing(name: str) -> None:
    world = one_taste_world(2, Size(seen=150, new=60, choices=40))
    shared, model = BradleyTerry.fit(world.seen), CASES[name].method.fit(world.seen)
    for adapted, test in ((world.seen, world.seen_test), (world.new, world.new_test)):
        assert accuracy(model, adapted, test) >= accuracy(shared, adapted, test) - 0.01


@pytest.mark.parametrize("name", CASES)
def test_at_the_largest_strength_everybody_has_the_global_head(name: str) -> None:
    case = CASES[name]
    world = case.world(3, SMALL)
    model = case.method.fit(world.seen, **{**case.quick, "strength": 1e6})
    shared = BradleyTerry.fit(world.seen, ridge=1.0)
    table, prompts = world.new_test.features[:, None], world.new_test.prompts
    users = np.arange(len(table)) % world.new.users
    states = {key: array[users] for key, array in model.adapt(world.new).items()}
    same = {"none": np.zeros((len(table), 0), np.float32)}
    assert np.allclose(model.score(states, table, prompts), shared.score(same, table), atol=1e-5)


@pytest.mark.parametrize("name", CASES)
def test_own_choices_help_new_users_in_a_small_world(name: str) -> None:
    case = CASES[name]
    world = case.world(6, SMALL._replace(seen=80, new=40, choices=40, tests=100))
    model = case.method.fit(world.seen, **case.quick)
    nothing = world.new.take(np.zeros(len(world.new), bool))
    own = accuracy(model, world.new, world.new_test)
    stranger = world.new.of_users(np.roll(np.arange(world.new.users), 1))
    for other in (nothing, stranger):
        without = accuracy(model, other, world.new_test)
        assert world.new_oracle > without + 0.02
        assert own - without > 0.5 * (world.new_oracle - without)


@pytest.mark.parametrize("name", CASES)
def test_opposite_tastes_are_told_apart_where_one_head_is_at_chance(name: str) -> None:
    world = opposed_world(1, Size(seen=60, new=40, choices=20, tests=60, width=12))
    model, shared = CASES[name].method.fit(world.seen), BradleyTerry.fit(world.seen)
    assert abs(accuracy(shared, world.new, world.new_test) - 0.5) < 0.1
    found = accuracy(model, world.new, world.new_test)
    assert found - 0.5 >= 0.9 * (world.new_oracle - 0.5)


def test_what_is_given_is_kept_and_what_is_not_is_chosen() -> None:
    case = CASES["lore"]
    world = case.world(7, SMALL)
    given = case.method.fit(world.seen, strength=5, starts=1, basis=3).options
    assert (given["strength"], given["basis"], given["starts"]) == (5.0, 3, 1)
    assert given["concentration"] in (FIRST_CONCENTRATION, *CONCENTRATIONS)
    chosen = case.method.fit(world.seen, concentration=2.5, starts=1).options
    assert chosen["strength"] in (ALIKE, *STRENGTHS)
    assert chosen["concentration"] == 2.5
