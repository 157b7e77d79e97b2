"""Every family with kinds of tokenizers in turn, and three with all and every scorer too.

`python tests/gauntlet/table.py` reads every family with every kind.
"""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from cell_grids import BY_BOTH, BY_TOKENIZER
from families import FAMILIES
from outcomes import expected
from vocabularies import VOCABULARIES

EVERY = 4
"""Of so many kinds a family is read with one: tokenizers and families are read apart."""
OTHERS = [
    cell
    for k, cell in enumerate(BY_TOKENIZER)
    if k // len(VOCABULARIES) % EVERY == k % EVERY and cell.kind != FAMILIES[cell.name].tokenizer
]


@pytest.mark.parametrize("cell", [*OTHERS, *BY_BOTH], ids=str)
def test_a_cell_equals_plain_transformers_whatever_the_tokenizer(cells, cell):
    outcome = cells(cell.name, cell.kind).outcome(cell.column, lightly=cell.lightly)
    assert outcome == expected(cell.name, cell.column, cell.kind)
