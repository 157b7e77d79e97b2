"""Every family with every kind of tokenizer, and three with every scorer too."""

from __future__ import annotations

from functools import lru_cache

import pytest

pytest.importorskip("torch")

from cells import Cells
from families import FAMILIES
from outcomes import expected, waits_for
from vocabularies import VOCABULARIES

DEEPLY = ("Llama 3", "Gemma 2", "Mamba")
"""Families read as a tree, up to a window, and by a state."""
COLUMNS = ("likelihood", "autoregressive", "judge", "rating", "1 label", "similarity", "replies")


def cell(name: str, kind: str, column: str):
    """Return a cell, marked where it waits for a defect to be mended."""
    row = waits_for(name, column, kind)
    marks = [] if row is None else [pytest.mark.xfail(strict=True, reason=row)]
    return pytest.param(name, kind, column, marks=marks, id=f"{name}, {kind}, {column}")


def first_column(name: str) -> str:
    """Return the column that tells most of a family."""
    return "likelihood" if FAMILIES[name].kind == "decoder" else "1 label"


CELLS = [
    cell(name, kind, column)
    for name, family in FAMILIES.items()
    for kind in VOCABULARIES
    for column in (COLUMNS if name in DEEPLY else (first_column(name),))
    if kind != family.tokenizer  # which the other table has
]


@pytest.fixture(scope="module")
def cells(shelf):
    """The cells of a family and a tokenizer; models are let go of when the next one is read."""
    return lru_cache(maxsize=1)(lambda name, kind: Cells(shelf, name, kind))


@pytest.mark.parametrize(("name", "kind", "column"), CELLS)
def test_a_cell_equals_plain_transformers_whatever_the_tokenizer(cells, name, kind, column):
    assert cells(name, kind).outcome(column) == expected(name, column, kind)
