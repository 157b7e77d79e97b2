"""Every family with adapters, GGUF, thoughts, ends, HTML, a wrong key and a renamed tensor."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
pytest.importorskip("peft")
pytest.importorskip("gguf")

from cell_grids import BY_VARIANT
from outcomes import is_expected


@pytest.mark.parametrize("cell", BY_VARIANT, ids=str)
def test_a_variant_equals_plain_transformers_or_peft_or_is_refused(cells, cell, monkeypatch):
    monkeypatch.setenv("PALATE_CACHE", str(cells(cell.name).shelf.root / "cache"))
    outcome = cells(cell.name).outcome(cell.column, lightly=True)
    assert is_expected(outcome, cell.name, cell.column), outcome
