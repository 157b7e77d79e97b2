"""Every family under every scorer: the number of plain transformers, or a refusal in one line."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from cell_grids import BY_SCORER
from outcomes import expected


@pytest.mark.parametrize("cell", BY_SCORER, ids=str)
def test_a_cell_equals_plain_transformers_or_is_refused(cells, cell):
    assert cells(cell.name, cell.kind).outcome(cell.column) == expected(cell.name, cell.column)
