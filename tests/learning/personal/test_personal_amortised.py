"""Laws that VPL and GPO share, on a small world that a quick fit learns."""

from __future__ import annotations

import numpy as np
import pytest
from worlds import hit_rate, latent_users, people, vectors

from palate.errors import UsageError
from palate.learning.choices import Choices
from palate.learning.heads import BradleyTerry
from palate.learning.states import repeated, take

pytest.importorskip("torch")
from palate.learning.encoders import GPO, VPL

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
    assert hit_rate(model, own, world.later) > hit_rate(model, unknown, world.later) + 0.05


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


def test_heads_must_divide_the_width() -> None:
    with pytest.raises(UsageError, match="hidden=16 is no multiple of heads=3"):
        GPO.fit(small_world().choices, heads=3, **SMALL)
