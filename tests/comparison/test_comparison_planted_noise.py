"""Rounding of known size: what `tools/planted_rounding.py` prints, with 50 seeds a world."""

import sys
from functools import cache
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

from planted_rounding import BORDERLINE, CLEAR, UNEQUAL, World, tally

SEEDS = 50
told = cache(lambda world: tally(world, range(SEEDS)))


@pytest.mark.parametrize("world", [BORDERLINE[1], CLEAR[1], *UNEQUAL])
def test_the_error_has_its_size_and_flips_their_number(world):
    seen = told(world)
    assert world.unequal or 0.8 <= seen.sd <= 1.2
    assert seen.low <= seen.flips <= seen.high


def test_a_yes_that_is_rounding_reads_so():
    right, all_of_them = (
        sum(column)
        for column in zip(
            *(told(world).rounding for world in (*BORDERLINE, UNEQUAL[0])), strict=True
        )
    )
    assert all_of_them >= 7, "of about 14, or there would be nothing to tell by"
    assert right >= 0.95 * all_of_them


@pytest.mark.parametrize("world", [*CLEAR[:2], UNEQUAL[1]])
def test_a_real_yes_reads_yes(world):
    right, all_of_them = told(world).real
    assert all_of_them >= 0.95 * SEEDS
    assert right >= 0.95 * all_of_them


def test_without_the_sample_these_would_read_yes():
    worlds = [told(world) for world in BORDERLINE]
    assert sum(each.rounding[1] for each in worlds) > 5, "or there would be nothing to guard from"
    assert World(0.5, 0.2) == BORDERLINE[1]
