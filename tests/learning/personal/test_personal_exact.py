"""A method that says it is exact scores a response alike, whatever is scored with it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from worlds import Size, pal_b_world

from palate.learning.personal import Model, method_of, take
from palate.seeding import rng
from palate.specs import registered

EXACT = [name for name in registered("palate.methods") if method_of(name).exact]
SLATES, WIDTH = 40, 96


@pytest.fixture(scope="module", params=EXACT)
def model(request: pytest.FixtureRequest) -> Model:
    world = pal_b_world(size=Size(seen=12, new=4, choices=25, tests=4, width=WIDTH))
    return method_of(request.param).fit(world.seen, seed=0)


def test_all_but_the_networks_are_exact() -> None:
    assert set(registered("palate.methods")) - set(EXACT) == {"gpo", "vpl"}


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_scores_do_not_depend_on_the_batch(model: Model, data: st.DataObject) -> None:
    stream = rng("exact", 0)
    table = stream.standard_normal((SLATES, 5, WIDTH), dtype=np.float32)
    asked = stream.standard_normal((SLATES, WIDTH), dtype=np.float32)
    world = pal_b_world(size=Size(seen=12, new=4, choices=25, tests=4, width=WIDTH))
    states = model.adapt(world.seen)
    users = np.arange(SLATES) % world.seen.users
    whole = model.score(take(states, users), table, asked)
    rows = np.array(data.draw(st.lists(st.integers(0, SLATES - 1), min_size=1, max_size=9)))
    some = np.array(data.draw(st.lists(st.integers(0, 4), min_size=1, max_size=5)))
    part = model.score(take(states, users[rows]), table[rows][:, some], asked[rows])
    assert part.tobytes() == np.ascontiguousarray(whole[rows][:, some]).tobytes()
