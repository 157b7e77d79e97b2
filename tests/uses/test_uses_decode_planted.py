"""In a world whose law is known, guidance moves each user's words to where the law says."""

from __future__ import annotations

import numpy as np
import pytest
from planted_words import LIKES, Taste, World, dataset, documents, liked_words

from pairs import register
from palate.records import Settings
from palate.session import Session
from palate.uses.decode import decode

N, LENGTH = 320, 3
SETTINGS = Settings(dtype="float32", device="cpu")


@pytest.fixture(scope="module")
def world(tiny, tmp_path_factory):
    return World(tiny, tmp_path_factory.mktemp("planted"))


def run(world, monkeypatch, store, **options):
    register(monkeypatch, taste=Taste(world))
    return decode(
        dataset(), f"{world.specs['policy']}?max_tokens={LENGTH}", "taste",
        qualities=[liked_words()], root=None, settings=SETTINGS, session=Session(store=store),
        **{"n": N, **options},
    )  # fmt: skip


@pytest.mark.parametrize(("method", "weights"), [("genarm", [0.5, 2.0, -1.0]), ("args?k=4", [1.0])])
def test_each_users_share_of_liked_words_is_what_the_law_predicts(
    world, monkeypatch, tmp_path, method, weights
):
    result = run(world, monkeypatch, tmp_path, methods=method, weights=weights)
    # Words of one answer depend on each other, so an answer counts as one draw.
    error = 4 * np.sqrt(0.25 / N)
    for user, row in zip(LIKES, result.rows, strict=True):
        unguided, *guided = row.values
        assert unguided == pytest.approx(world.share(user, 0.0, LENGTH), abs=error)
        for weight, share in zip(weights, guided, strict=True):
            assert share == pytest.approx(world.share(user, weight, LENGTH), abs=error)
            assert (share > unguided) == (weight > 0)
    # All answers are those of users, unguided ones of the prompt that both share.
    assert len(documents(tmp_path)) == N * (1 + 2 * len(weights))


def test_a_weight_of_0_writes_what_the_policy_writes(world, monkeypatch, tmp_path):
    result = run(world, monkeypatch, tmp_path, methods="genarm", weights=[0.0], n=20)
    (cell,) = result.summary.cells
    assert all(guided == unguided for unguided, guided in result.values)
    assert cell.guiding.divergence == pytest.approx(0.0, abs=1e-9)
    assert cell.guiding.reward.value == pytest.approx(0.0)
    assert cell.guiding.tokens == {"policy": LENGTH, "guide": LENGTH}
    assert cell.guiding.text == result.summary.text


def test_blocks_as_long_as_the_answer_are_best_of_k(world, monkeypatch, tmp_path):
    result = run(world, monkeypatch, tmp_path, methods=f"blocks?K=4&length={LENGTH}", n=60)
    (cell,) = result.summary.cells
    assert cell.weight is None
    assert cell.guiding.divergence is None
    assert cell.guiding.divergence_bound == pytest.approx(np.log(4) - 3 / 4)
    for row in result.rows:
        assert row.values[1] > row.values[0] + 0.1
