"""What holds of every state, whatever was learnt."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from worlds import ALL, CASES, NETWORKS, SMALL, Size, pal_b_world

from palate.errors import DataError, UsageError
from palate.learning.choices import Choices, Scaling
from palate.learning.personal import Model, method_of
from palate.learning.shrinkage import margins
from palate.learning.states import take
from palate.seeding import rng
from palate.specs import registered

FITTED: dict[str, Any] = {}


def fitted(name: str) -> tuple[Any, Any]:
    if name in NETWORKS:
        pytest.importorskip("torch")
    if name not in FITTED:
        case = ALL[name]
        world = case.world(5, SMALL)
        FITTED[name] = case.method.fit(world.seen, seed=1, **case.quick), world
    return FITTED[name]


def state(model: Any, choices: Choices) -> np.ndarray:
    (found,) = model.adapt(choices).values()
    return found


def pair(choices: Choices, which: list[int], flipped: list[bool]) -> Choices:
    """Return one user with these pairs of `choices`, some the other way round."""
    rows, turn = np.array(which), np.array(flipped)
    chosen, rejected = choices.chosen[rows], choices.rejected[rows]
    return Choices(
        choices.features,
        np.zeros(len(rows), np.int64),
        np.where(turn, rejected, chosen),
        np.where(turn, chosen, rejected),
        1,
        choices.prompts,
    )


@pytest.mark.parametrize("name", ALL)
def test_no_choices_give_the_prior(name: str) -> None:
    model, world = fitted(name)
    nothing = world.new.take(np.zeros(len(world.new), bool))
    slack = 1e-6 if name == "mixture" else 0.0  # whose shares are divided by their sum
    (prior,) = model.prior().values()
    assert prior.dtype == np.float32 and len(prior) == 1
    every = np.repeat(prior, nothing.users, axis=0)
    assert state(model, nothing) == pytest.approx(every, abs=slack, rel=0)
    table, prompts = nothing.features[:5, None], nothing.prompts[:5]
    one = {key: array.repeat(5, axis=0) for key, array in model.prior().items()}
    own = {key: array[:5] for key, array in model.adapt(nothing).items()}
    scores = (model.score(states, table, prompts) for states in (own, one))
    assert next(scores) == pytest.approx(next(scores), abs=10 * slack, rel=0)
    mixed = state(model, world.new.take(world.new.user == 1))
    assert mixed[[0, 2]] == pytest.approx(every[:2], abs=slack, rel=0)
    assert name == "bradley-terry" or not np.allclose(mixed[1], prior[0], atol=1e-3)


@pytest.mark.parametrize("name", ALL)
def test_together_equals_alone(name: str) -> None:
    model, world = fitted(name)
    uneven = world.new.take(np.arange(len(world.new)) % (2 + world.new.user) == 0)
    together = state(model, uneven)
    near = ALL[name].near * max(1.0, np.abs(together).max(initial=0))
    for user in range(uneven.users):
        alone = state(model, uneven.of_users(np.array([user])))
        assert np.abs(alone[0] - together[user]).max(initial=0) < near


@pytest.mark.parametrize("name", ALL)
@settings(max_examples=10)
@given(data=st.data())
def test_permuting_users_permutes_states(name: str, data: st.DataObject) -> None:
    model, world = fitted(name)
    order = np.array(data.draw(st.permutations(range(world.new.users))))
    found, whole = state(model, world.new.of_users(order)), state(model, world.new)
    near = ALL[name].near * max(1.0, np.abs(whole).max(initial=0))
    assert np.abs(found - whole[order]).max(initial=0) < near


@pytest.mark.parametrize("name", ALL)
@settings(max_examples=10)
@given(data=st.data())
def test_the_order_of_choices_does_not_matter(name: str, data: st.DataObject) -> None:
    model, world = fitted(name)
    seed = data.draw(st.integers(0, 2**32 - 1))
    order = np.random.default_rng(seed).permutation(len(world.new))
    found = state(model, world.new.take(order))
    assert np.abs(found - state(model, world.new)).max(initial=0) < 1e-5


@pytest.mark.parametrize("name", CASES)
def test_one_choice_moves_its_own_margin_up(name: str) -> None:
    model, world = fitted(name)
    for row in range(20):
        one = pair(world.new, [row], [False])
        after = margins(model, model.adapt(one), one)
        before = margins(model, model.prior(), one)
        # A user who is sure already cannot be moved by what float32 can tell.
        assert after[0] > before[0] or before[0] > 10


@pytest.mark.parametrize("name", CASES)
def test_contradictory_choices_stay_finite_and_weaken_the_margin(name: str) -> None:
    model, world = fitted(name)
    for row in range(20):
        both = pair(world.new, [row, row], [False, True])
        found = state(model, both)
        assert np.isfinite(found).all()
        one = pair(world.new, [row], [False])
        before = margins(model, model.prior(), one)[0]
        assert abs(margins(model, model.adapt(both), one)[0]) <= abs(before) + 1e-5


@pytest.mark.parametrize("name", CASES)
def test_separable_choices_stay_finite_and_grow_no_further_than_the_prior_lets_them(
    name: str,
) -> None:
    model, world = fitted(name)
    ten = pair(world.new, [3] * 10, [False] * 10)
    many = pair(world.new, [3] * 500, [False] * 500)
    few, full = (margins(model, model.adapt(one), ten)[0] for one in (ten, many))
    assert np.isfinite(state(model, many)).all()
    assert margins(model, model.prior(), ten)[0] < few < full < 1e3


@pytest.mark.parametrize("name", ["lore", "pal-a", "pal-b"])
def test_weights_lie_on_the_simplex(name: str) -> None:
    model, world = fitted(name)
    weights = state(model, world.new)
    assert (weights > 0).all()
    assert np.allclose(weights.sum(axis=1), 1, atol=1e-6)


@pytest.mark.parametrize("name", ALL)
def test_tensors_load_to_the_same_model(name: str) -> None:
    model, world = fitted(name)
    tensors = model.tensors()
    loaded = type(model).load({key: array.copy() for key, array in tensors.items()}, model.options)
    assert loaded.options == model.options
    for key, array in loaded.tensors().items():
        assert np.array_equal(array, tensors[key])
    assert np.array_equal(state(loaded, world.new), state(model, world.new))
    found, again = (margins(one, one.adapt(world.new), world.new_test) for one in (model, loaded))
    assert np.array_equal(found, again)


@pytest.mark.parametrize("name", ALL)
def test_same_seed_same_model(name: str) -> None:
    model, world = fitted(name)
    again = ALL[name].method.fit(world.seen, seed=1, **ALL[name].quick).tensors()
    assert again.keys() == model.tensors().keys()
    for key, array in again.items():
        assert np.array_equal(array, model.tensors()[key])
    if name in NETWORKS:
        other = ALL[name].method.fit(world.seen, seed=2, **ALL[name].quick).tensors()
        assert any(not np.array_equal(array, other[key]) for key, array in again.items())


@pytest.mark.parametrize("name", CASES)
def test_margins_are_log_odds_that_turn_with_the_pair(name: str) -> None:
    model, world = fitted(name)
    states = {key: array[:1] for key, array in model.adapt(world.new).items()}
    forward, back = pair(world.new, [0, 1, 2], [False] * 3), pair(world.new, [0, 1, 2], [True] * 3)
    assert np.allclose(margins(model, states, forward), -margins(model, states, back))


@pytest.mark.parametrize("name", ALL)
def test_what_cannot_be_learnt_is_refused(name: str) -> None:
    method, world = ALL[name].method, fitted(name)[1]
    nothing = world.seen.take(np.zeros(len(world.seen), bool))
    with pytest.raises(DataError, match="no choice to learn from"):
        method.fit(nothing)
    with pytest.raises(UsageError, match="unknown option 'rank'"):
        method.fit(world.seen, rank=3)


@pytest.mark.parametrize("name", CASES)
def test_a_handful_of_choices_of_one_user_is_enough_to_fit(name: str) -> None:
    few = fitted(name)[1].seen.of_users(np.array([0])).take(np.arange(3))
    model = CASES[name].method.fit(few)
    assert np.isfinite(state(model, few)).all()
    assert np.isfinite(margins(model, model.adapt(few), few)).all()


def test_pal_b_says_when_questions_are_missing() -> None:
    model, world = fitted("pal-b")
    bare = Choices(world.seen.features, world.seen.user, world.seen.chosen, world.seen.rejected, 40)
    with pytest.raises(DataError, match="questions"):
        CASES["pal-b"].method.fit(bare, **CASES["pal-b"].quick)
    with pytest.raises(DataError, match="questions"):
        model.adapt(bare)
    with pytest.raises(DataError, match="questions"):
        model.score(model.prior(), world.seen.features[None, :2])


def test_vectors_of_another_width_are_refused() -> None:
    table = np.eye(4, dtype=np.float32)
    with pytest.raises(DataError, match="another embedder"):
        Scaling.of(table, [4]).apply(table[:, :3])


def test_pal_a_is_the_distance_to_an_ideal_point() -> None:
    model, world = fitted("pal-a")
    assert model.curvature > 0
    states = model.adapt(world.new.of_users(np.array([0])))
    table = world.new_test.features[:50]
    root = np.sqrt(model.curvature)
    ideal = states["weights"][0].astype(np.float64) @ model.prototypes / root
    distance = ((root * table.astype(np.float64) @ model.mapping.T - ideal) ** 2).sum(axis=1)
    scores = model.score(states, table[None])[0] - table.astype(np.float64) @ model.head
    assert np.allclose(scores - scores[0], distance[0] - distance, atol=1e-6)


EXACT = [name for name in registered("palate.methods") if method_of(name).exact]
SLATES, WIDTH = 40, 96


@pytest.fixture(scope="module", params=EXACT)
def exact(request: pytest.FixtureRequest) -> Model:
    world = pal_b_world(size=Size(seen=12, new=4, choices=25, tests=4, width=WIDTH))
    return method_of(request.param).fit(world.seen, seed=0)


def test_all_but_the_networks_are_exact() -> None:
    assert set(registered("palate.methods")) - set(EXACT) == {"gpo", "vpl"}


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_scores_do_not_depend_on_the_batch(exact: Model, data: st.DataObject) -> None:
    stream = rng("exact", 0)
    table = stream.standard_normal((SLATES, 5, WIDTH), dtype=np.float32)
    asked = stream.standard_normal((SLATES, WIDTH), dtype=np.float32)
    world = pal_b_world(size=Size(seen=12, new=4, choices=25, tests=4, width=WIDTH))
    states = exact.adapt(world.seen)
    users = np.arange(SLATES) % world.seen.users
    whole = exact.score(take(states, users), table, asked)
    rows = np.array(data.draw(st.lists(st.integers(0, SLATES - 1), min_size=1, max_size=9)))
    some = np.array(data.draw(st.lists(st.integers(0, 4), min_size=1, max_size=5)))
    part = exact.score(take(states, users[rows]), table[rows][:, some], asked[rows])
    assert part.tobytes() == np.ascontiguousarray(whole[rows][:, some]).tobytes()
