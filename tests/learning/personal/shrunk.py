"""The four methods that start from the global head, each with its own world."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from worlds import World, lore_world, pal_a_world, pal_b_world, pref_world

from palate.learning.methods.lore import LoRe
from palate.learning.methods.pal_a import PALA
from palate.learning.methods.pal_b import PALB
from palate.learning.methods.pref import PReF


class Case(NamedTuple):
    method: Any
    world: Callable[..., World]
    quick: dict[str, Any]
    """Options under which nothing is left to choose, for tests of states."""


_QUICK = {"ridge": 1.0, "strength": 0.1, "starts": 1}
CASES = {
    "lore": Case(LoRe, lore_world, {**_QUICK, "concentration": 1.0, "basis": 4}),
    "pref": Case(PReF, pref_world, {**_QUICK, "dimensions": 4}),
    "pal-a": Case(PALA, pal_a_world, {**_QUICK, "concentration": 1.0, "dimensions": 4}),
    "pal-b": Case(PALB, pal_b_world, {**_QUICK, "concentration": 1.0, "dimensions": 3}),
}
