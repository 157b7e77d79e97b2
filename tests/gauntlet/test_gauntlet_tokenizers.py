"""Every family with every kind of tokenizer, and three with every scorer too."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from cell_grids import BY_BOTH, BY_TOKENIZER
from families import FAMILIES
from outcomes import expected

OTHERS = [cell for cell in BY_TOKENIZER if cell.kind != FAMILIES[cell.name].tokenizer]


@pytest.mark.parametrize("cell", [*OTHERS, *BY_BOTH], ids=str)
def test_a_cell_equals_plain_transformers_whatever_the_tokenizer(cells, cell):
    outcome = cells(cell.name, cell.kind).outcome(cell.column, lightly=cell.lightly)
    assert outcome == expected(cell.name, cell.column, cell.kind)
