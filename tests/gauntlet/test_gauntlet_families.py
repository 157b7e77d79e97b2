"""Every family under every scorer: the number of plain transformers, or a refusal in one line."""

from __future__ import annotations

from functools import lru_cache

import pytest

pytest.importorskip("torch")

from cells import COLUMNS, Cells
from families import FAMILIES
from outcomes import expected, waits_for

CELLS = [(name, column) for name in FAMILIES for column in ("reads", *COLUMNS, "replies")]


@pytest.fixture(scope="module")
def cells(shelf):
    """The cells of a family; its models are let go of when the next one's turn has come."""
    return lru_cache(maxsize=1)(lambda name: Cells(shelf, name))


def cell(name: str, column: str):
    """Return a cell, marked where it waits for a defect to be mended."""
    row = waits_for(name, column)
    marks = [] if row is None else [pytest.mark.xfail(strict=True, reason=row)]
    return pytest.param(name, column, marks=marks, id=f"{name}, {column}")


@pytest.mark.parametrize(("name", "column"), [cell(*each) for each in CELLS])
def test_a_cell_equals_plain_transformers_or_is_refused(cells, name, column):
    assert cells(name).outcome(column) == expected(name, column)
