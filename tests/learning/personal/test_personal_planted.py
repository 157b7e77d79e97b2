"""Planted truth: what each method must find in a world of its own making, and in one without."""

from __future__ import annotations

import numpy as np
import pytest
from heads import linear_world
from worlds import (
    CASES,
    SMALL,
    Size,
    accuracy,
    gaussian_users,
    hit_rate,
    latent_users,
    one_taste_world,
    opposed_world,
    people,
    share_of_oracle,
    vectors,
)  # fmt: skip

from palate.learning.encoders import GPO, VPL
from palate.learning.heads import BradleyTerry, MixtureOfHeads, UserHeads
from palate.learning.shrinkage import ALIKE, CONCENTRATIONS, FIRST_CONCENTRATION, STRENGTHS, margins

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


@pytest.mark.parametrize("method", (VPL, GPO))
def test_costs_nothing_where_all_users_are_alike(method) -> None:
    table = vectors(800, 32, "alike")
    everybody = np.repeat(latent_users(table, 1, 3, 2.0, "alike"), 200, axis=0)
    world = people(everybody, table, 60, 100, "alike")
    model, plain = method.fit(world.choices), BradleyTerry.fit(world.choices)
    reached = hit_rate(plain, plain.adapt(world.choices), world.later)
    assert reached > 0.5 + 0.9 * (world.oracle - 0.5)
    assert hit_rate(model, model.adapt(world.choices), world.later) >= reached - 0.01


def test_finds_bent_tastes_of_seen_and_new_users() -> None:
    table = vectors(600, 2, "table")
    seen, new = (
        people(gaussian_users(table, users, 5.0, 1.0, which, linear=0.2), table, 100, 100, which)
        for users, which in ((300, "seen"), (100, "new"))
    )
    model, straight = GPO.fit(seen.choices), UserHeads.fit(seen.choices)
    for whom in (seen, new):
        share = share_of_oracle(model, model.adapt(whom.choices), whom)
        assert share >= 0.85
        # No straight head per user can follow a reward that bends.
        assert share > share_of_oracle(straight, straight.adapt(whom.choices), whom) + 0.03


@pytest.mark.parametrize(
    ("users", "width", "latent", "hidden", "size"),
    [(200, 32, 3, None, 4.0), (300, 4, 2, 16, 8.0)],
    ids=["bilinear", "network"],
)
def test_finds_latent_tastes_of_seen_and_new_users(users, width, latent, hidden, size) -> None:
    table = vectors(800, width, "table")
    seen, new = (
        people(latent_users(table, n, latent, size, which, hidden=hidden), table, 60, 100, which)
        for n, which in ((users, "seen"), (100, "new"))
    )
    model, plain = VPL.fit(seen.choices), BradleyTerry.fit(seen.choices)
    for whom in (seen, new):
        assert share_of_oracle(plain, plain.adapt(whom.choices), whom) < 0.7
        assert share_of_oracle(model, model.adapt(whom.choices), whom) >= 0.85
    # Few choices already help, and more help more.
    found = [
        hit_rate(model, model.adapt(_first(new.choices, n)), new.later) for n in (0, 3, 10, 60)
    ]
    assert found == sorted(found)
    assert found[1] > found[0] + 0.02


def _first(choices, n):
    rows = choices.rows_by_user()
    return choices.take(np.concatenate([own[:n] for own in rows]))


D = 12


def test_heads_per_user_reach_the_oracle_with_enough_choices():
    heads = np.random.default_rng(3).normal(size=(40, D)) * 8
    world = linear_world(heads, each=800, seed=4)
    model = UserHeads.fit(world.train)
    reached = world.accuracy(margins(model, model.adapt(world.train), world.test))
    assert reached - 0.5 >= 0.95 * 0.5


def test_the_mixture_finds_its_groups_and_whom_they_hold():
    stream = np.random.default_rng(5)
    groups = stream.normal(size=(3, D)) * 10
    member = stream.integers(3, size=90)
    world = linear_world(groups[member], each=150, seed=6)
    model = MixtureOfHeads.fit(world.train, heads=3, concentration=0.5)
    reached = world.accuracy(margins(model, model.adapt(world.train), world.test))
    assert reached - 0.5 >= 0.95 * 0.5
    shares = model.adapt(world.train)["shares"]
    top = shares.argmax(axis=1)
    assert all(len(set(top[member == group])) == 1 for group in range(3))
