"""Laws that VPL and GPO share, on a small world that a quick fit learns."""

from __future__ import annotations

import numpy as np
import pytest
from worlds_amortised import accuracy, latent_users, people, vectors

from palate.errors import DataError, UsageError
from palate.learning.methods.bradley_terry import BradleyTerry
from palate.learning.personal import Choices, repeated, take

pytest.importorskip("torch")
from palate.learning.methods.gpo import GPO
from palate.learning.methods.vpl import VPL

METHODS = (VPL, GPO)
SMALL = {"hidden": 16, "steps": 200, "rate": 0.01}
SHORT = {"hidden": 16, "steps": 15, "rate": 0.01, "ridge": 1.0}
TABLE = vectors(120, 4, "small")


def small_world():
    return people(latent_users(TABLE, 60, 2, 6.0, "small"), TABLE, 20, 30, "small")


@pytest.fixture(scope="module", params=METHODS, ids=lambda method: method.method)
def fitted(request):
    world = small_world()
    return request.param.fit(world.choices, **SMALL), world


def scores(model, states):
    slates = np.repeat(TABLE[None, :5].astype(np.float32), len(states[model.state]), axis=0)
    return model.score(states, slates)


def some_choices(*pairs, users=1):
    user, chosen, rejected = np.array(pairs, np.int64).reshape(-1, 3).T
    return Choices(TABLE.astype(np.float32), user, chosen, rejected, users)


def test_quick_fit_learns_so_that_the_laws_below_say_something(fitted) -> None:
    model, world = fitted
    own = model.adapt(world.choices)
    unknown = repeated(model.prior(), world.choices.users)
    assert accuracy(model, own, world.later) > accuracy(model, unknown, world.later) + 0.05


@pytest.mark.parametrize("method", METHODS)
def test_same_seed_gives_the_same_tensors_and_another_gives_others(method) -> None:
    choices = small_world().choices
    one, again, other = (method.fit(choices, seed=k, **SHORT).tensors() for k in (0, 0, 1))
    assert one.keys() == again.keys() == other.keys()
    assert all(np.array_equal(array, again[name]) for name, array in one.items())
    assert any(not np.array_equal(array, other[name]) for name, array in one.items())


def test_what_was_learnt_can_be_saved_and_read_back_exactly(fitted, tmp_path) -> None:
    model, world = fitted
    np.savez(tmp_path / "model.npz", **model.tensors())
    with np.load(tmp_path / "model.npz") as saved:
        back = type(model).load(dict(saved), model.options)
    assert all(
        np.array_equal(array, back.tensors()[name]) for name, array in model.tensors().items()
    )
    states, again = model.adapt(world.choices), back.adapt(world.choices)
    assert np.array_equal(states[model.state], again[model.state])
    assert np.array_equal(scores(model, states), scores(back, again))


def test_no_choices_give_the_prior(fitted) -> None:
    model, _ = fitted
    nothing = model.adapt(some_choices(users=3))
    prior = repeated(model.prior(), 3)
    assert np.array_equal(nothing[model.state], prior[model.state])
    assert np.array_equal(scores(model, nothing), scores(model, prior))
    mixed = model.adapt(some_choices((1, 0, 1), users=3))
    assert np.array_equal(mixed[model.state][[0, 2]], prior[model.state][:2])
    assert not np.allclose(mixed[model.state][1], prior[model.state][1], atol=1e-3)


def test_prior_of_vpl_is_zero() -> None:
    model = VPL.fit(small_world().choices, **SHORT)
    assert np.array_equal(model.prior()["z"], np.zeros((1, 16), np.float32))


def test_odd_choices_give_finite_numbers(fitted) -> None:
    model, _ = fitted
    order = np.argsort(TABLE[:, 0])
    separable = [(2, high, low) for low, high in zip(order[:50], order[70:], strict=True)]
    many = [(3, 0, 1)] * 400
    odd = model.adapt(some_choices((0, 0, 1), (1, 0, 1), (1, 1, 0), *separable, *many, users=4))
    assert np.isfinite(odd[model.state]).all()
    assert np.isfinite(scores(model, odd)).all()


def test_users_do_not_touch_one_another(fitted) -> None:
    model, world = fitted
    stream = np.random.default_rng(0)
    kept = world.choices.take(
        stream.random(len(world.choices)) < 0.5 * stream.random(60)[world.choices.user]
    )
    assert len(np.unique(kept.counts)) > 5
    together = model.adapt(kept)
    for user in range(0, kept.users, 7):
        alone = model.adapt(kept.of_users(np.array([user])))
        one = 1e-6 * np.abs(together[model.state]).max()  # float32 has seven digits
        assert np.allclose(together[model.state][user], alone[model.state][0], atol=one, rtol=0)
        own = take(together, np.array([user]))
        assert np.allclose(scores(model, own), scores(model, together)[user], atol=1e-5)


def test_order_of_choices_does_not_matter(fitted) -> None:
    model, world = fitted
    mixed = world.choices.take(np.random.default_rng(1).permutation(len(world.choices)))
    states, again = model.adapt(world.choices), model.adapt(mixed)
    assert np.allclose(states[model.state], again[model.state], atol=1e-5)
    assert np.allclose(scores(model, states), scores(model, again), atol=1e-5)


def test_beyond_the_cap_the_last_choices_count(fitted) -> None:
    model, world = fitted
    capped = type(model).load(model.tensors(), {**model.options, "most": 5})
    last = world.choices.take(np.concatenate([own[-5:] for own in world.choices.rows_by_user()]))
    states, again = capped.adapt(world.choices), model.adapt(last)
    assert np.allclose(states[model.state], again[model.state], atol=1e-6)


def test_slates_agree_with_their_pairs(fitted) -> None:
    model, world = fitted
    states = take(model.adapt(world.choices), np.arange(10))
    slates = TABLE[np.random.default_rng(2).integers(0, 120, (10, 4))].astype(np.float32)
    whole = model.score(states, slates)
    for i in range(4):
        for j in range(4):
            pair = model.score(states, slates[:, [i, j]])
            assert np.allclose(pair[:, 0] - pair[:, 1], whole[:, i] - whole[:, j], atol=1e-5)


@pytest.mark.parametrize("method", METHODS)
def test_hardly_any_data_leaves_the_global_head(method) -> None:
    one = some_choices((0, 0, 1), users=2)
    model, plain = method.fit(one, **SMALL), BradleyTerry.fit(one)
    slates = TABLE[None, :5].astype(np.float32)
    assert np.array_equal(model.score(model.adapt(one.of_users(np.array([0]))), slates),
                          plain.score(plain.prior(), slates))  # fmt: skip
    few = people(latent_users(TABLE, 3, 2, 4.0, "few"), TABLE, 10, 1, "few").choices
    assert np.isfinite(method.fit(few, **SHORT).adapt(few)[method.state]).all()


@pytest.mark.parametrize("method", METHODS)
def test_a_user_with_very_many_choices_is_taken_in_parts(method, monkeypatch) -> None:
    longest = []
    encode = method.encode
    monkeypatch.setattr(
        method, "encode", lambda self, one: longest.append(one.mask.shape[1]) or encode(self, one)
    )
    many = [
        (0, *pair)
        for pair in np.random.default_rng(0).permuted(np.tile(np.arange(120), (3000, 1)), axis=1)[
            :, :2
        ]
    ]
    choices = some_choices(*many, *((user, 0, 1) for user in range(1, 12)), users=12)
    model = method.fit(choices, **SHORT, most=40)
    assert np.isfinite(model.adapt(choices)[model.state]).all()
    assert max(longest) == 40


@pytest.mark.parametrize("method", METHODS)
def test_mistakes_are_named(method) -> None:
    with pytest.raises(DataError, match="no choice to learn from"):
        method.fit(some_choices(users=2), ridge=1.0)
    with pytest.raises(UsageError, match="unknown option 'depth'"):
        method.fit(small_world().choices, depth=3)


def test_heads_must_divide_the_width() -> None:
    with pytest.raises(UsageError, match="hidden=16 is no multiple of heads=3"):
        GPO.fit(small_world().choices, heads=3, **SMALL)
