"""VPL and GPO cost nothing in a planted world of users who are all alike."""

import numpy as np
import pytest
from worlds_amortised import accuracy, latent_users, people, vectors

from palate.learning.methods.bradley_terry import BradleyTerry

pytest.importorskip("torch")
from palate.learning.methods.gpo import GPO
from palate.learning.methods.vpl import VPL


@pytest.mark.parametrize("method", (VPL, GPO))
def test_costs_nothing_where_all_users_are_alike(method) -> None:
    table = vectors(800, 32, "alike")
    everybody = np.repeat(latent_users(table, 1, 3, 2.0, "alike"), 200, axis=0)
    world = people(everybody, table, 60, 100, "alike")
    model, plain = method.fit(world.choices), BradleyTerry.fit(world.choices)
    reached = accuracy(plain, plain.adapt(world.choices), world.later)
    assert reached > 0.5 + 0.9 * (world.oracle - 0.5)
    assert accuracy(model, model.adapt(world.choices), world.later) >= reached - 0.01
