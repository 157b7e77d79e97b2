"""VPL on worlds of its own kind: a latent taste per user, decoded."""

from __future__ import annotations

import numpy as np
import pytest
from worlds_amortised import accuracy, latent_users, people, share_of_oracle, vectors

pytest.importorskip("torch")
from palate.learning.methods.bradley_terry import BradleyTerry
from palate.learning.methods.vpl import VPL


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
        accuracy(model, model.adapt(_first(new.choices, n)), new.later) for n in (0, 3, 10, 60)
    ]
    assert found == sorted(found)
    assert found[1] > found[0] + 0.02


def _first(choices, n):
    rows = choices.rows_by_user()
    return choices.take(np.concatenate([own[:n] for own in rows]))
