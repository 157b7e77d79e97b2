import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

from planted_worlds import (
    BY_QUESTION,
    CLEAR,
    EASE,
    FOLLOWS,
    LARGEST,
    LEANS,
    QUESTIONS,
    USERS,
    World,
    confidence,
    margins,
    mirrored_world,
    scales,
    truth,
    unmirrored_world,
)

MAKERS = {
    "mirrored": mirrored_world,
    "unmirrored": unmirrored_world,
    "mirrored shared": partial(mirrored_world, shared=True),
    "unmirrored shared": partial(unmirrored_world, shared=True),
}
MIRRORED = ("mirrored", "mirrored shared")
WORLDS = range(60)


def drawn(kind: str) -> list[World]:
    return [MAKERS[kind](3, number) for number in WORLDS]


@pytest.mark.parametrize("kind", MAKERS)
def test_same_seed_same_world(kind: str) -> None:
    one, same, other = MAKERS[kind](1, 2), MAKERS[kind](1, 2), MAKERS[kind](1, 3)
    assert np.array_equal(one.differences, same.differences)
    assert np.array_equal(one.who, same.who)
    assert np.array_equal(one.sides, same.sides)
    assert one.differences.shape != other.differences.shape or not np.array_equal(
        one.differences, other.differences
    )


@pytest.mark.parametrize("kind", MAKERS)
def test_users_are_unequal_and_tastes_have_length_one(kind: str) -> None:
    for world in drawn(kind):
        counts = np.bincount(world.who)
        assert counts.max() >= LARGEST * world.who.size
        assert counts.max() >= 4 * np.median(counts)
        assert USERS[0] <= len(world.names) < USERS[1]
        assert np.allclose(np.linalg.norm(world.tastes, axis=1), 1)
        assert set(world.sides.tolist()) == {1.0, -1.0}


@pytest.mark.parametrize("kind", MIRRORED)
def test_couples_are_mirrors_of_two_users(kind: str) -> None:
    for world in drawn(kind):
        assert world.mirror_rows is not None
        assert np.array_equal(world.mirror_rows[world.mirror_rows], np.arange(world.who.size))
        assert (world.who != world.who[world.mirror_rows]).all()
        assert np.array_equal(world.questions, world.questions[world.mirror_rows])
        assert np.array_equal(world.pairs, world.pairs[world.mirror_rows])
        assert np.array_equal(world.differences, world.differences[world.mirror_rows])
        assert np.array_equal(world.sides, -world.sides[world.mirror_rows])


def test_users_and_dyads_repeat() -> None:
    for world in drawn("mirrored"):
        dyads = np.sort(world.who.reshape(-1, 2), axis=1)
        _, often = np.unique(dyads, axis=0, return_counts=True)
        assert often.max() >= 3


@pytest.mark.parametrize("kind", MAKERS)
def test_users_share_questions_only_where_they_are_to(kind: str) -> None:
    for world in drawn(kind):
        assert world.rows == kind
        rows = world.who.size // (2 if world.mirrored else 1)
        if not kind.endswith("shared"):
            assert np.unique(world.questions).size == np.unique(world.pairs).size == rows
            continue
        assert QUESTIONS[0] <= np.unique(world.questions).size < QUESTIONS[1]
        askers = [np.unique(world.who[world.questions == q]).size for q in set(world.questions)]
        assert min(askers) >= 2
        # The responses of a pair are those of one question, whoever compares them.
        for pair in set(world.pairs.tolist()):
            same = world.pairs == pair
            assert np.unique(world.questions[same]).size == 1
            assert np.ptp(world.differences[same], axis=0).max() == 0


@pytest.mark.parametrize("kind", ["mirrored shared", "unmirrored shared"])
def test_a_shared_question_goes_well_or_badly_for_all_its_users(kind: str) -> None:
    """Brute force: products of deviations of two users on one question, over many worlds."""
    products = []
    for number, world in enumerate(drawn(kind)):
        right = (margins(world, 3, number)["knows"] > 0) - FOLLOWS
        same = world.questions[:, None] == world.questions
        apart = world.pairs[:, None] != world.pairs
        apart &= world.who[:, None] != world.who
        products.append(float(np.mean(np.outer(right, right)[same & apart])))
    planted = BY_QUESTION**2 * FOLLOWS * (1 - FOLLOWS) / (EASE + 1)
    noise = np.std(products, ddof=1) / np.sqrt(len(products))
    assert abs(np.mean(products) - planted) < 3.5 * noise
    assert planted > 3.5 * noise


def test_lean_is_how_often_taste_and_first_feature_agree() -> None:
    world = unmirrored_world(0, 0)
    drawn = np.random.default_rng(0).normal(size=(200_000, world.tastes.shape[1]))
    for user in range(5):
        agree = np.mean(np.sign(drawn @ world.tastes[user]) == np.sign(drawn[:, 0]))
        assert agree == pytest.approx(world.leans[user], abs=0.005)


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("scorer", ["blind", "confident", "knows", "hazy", "vague"])
def test_truth_is_where_users_are_on_average(kind: str, scorer: str) -> None:
    """Brute force: the share right by world, without any of palate's statistics."""
    right = np.array(
        [np.mean(margins(world, 3, number)[scorer] > 0) for number, world in enumerate(drawn(kind))]
    )
    noise = right.std(ddof=1) / np.sqrt(right.size)
    assert abs(right.mean() - truth(scorer, mirrored=kind in MIRRORED)) <= 3.5 * noise + 1e-12


def test_truth_by_hand() -> None:
    blind = FOLLOWS * LEANS + (1 - FOLLOWS) * (1 - LEANS)
    assert truth("blind", mirrored=False) == pytest.approx(0.575) == blind
    assert truth("hazy", mirrored=True) == pytest.approx(CLEAR * 0.75 + (1 - CLEAR) * 0.5)


def test_scale_is_the_root_mean_square_margin_on_common_pairs() -> None:
    world = mirrored_world(0, 1)
    for user, scale in zip(world.who, scales(world), strict=True):
        asked = confidence(world)[user] * world.differences[:200, 0]
        assert scale == pytest.approx(np.sqrt(np.mean(asked**2)))
