"""GPO on a world of its own kind: every user's reward is a draw from a Gaussian process."""

from __future__ import annotations

import pytest
from worlds_amortised import gaussian_users, people, share_of_oracle, vectors

pytest.importorskip("torch")
from palate.learning.methods import UserHeads
from palate.learning.methods.gpo import GPO


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
