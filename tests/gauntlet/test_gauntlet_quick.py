"""The gauntlet can fail: what is read wrongly is told; and one family of each way of reading."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

import torch
from cells import Wrong
from families import FAMILIES
from grids import BY_BOTH, BY_SCORER, BY_TOKENIZER, Cell
from outcomes import expected
from vocabularies import VOCABULARIES

from palate.engines.local import attention, heads
from palate.engines.local.padding import pad

QUICK = [
    *(Cell("Llama 3", None, column) for column in ("likelihood", "judge", "1 label", "reads")),
    *(Cell("Mistral", None, column) for column in ("lift", "rating", "reads")),
    *(Cell("Mamba", None, column) for column in ("autoregressive", "2 labels", "replies", "reads")),
    *(Cell("BERT", None, column) for column in ("likelihood", "1 label", "steps", "reads")),
]


@pytest.mark.parametrize("cell", QUICK, ids=str)
def test_a_family_of_each_way_of_reading_gets_the_numbers_of_plain_transformers(cells, cell):
    assert cells(cell.name).outcome(cell.column) == expected(cell.name, cell.column)


def test_no_cell_is_left_out():
    columns = {cell.column for cell in BY_SCORER}
    assert len(FAMILIES) >= 24
    assert {"5 labels", "steps", "similarity", "replies", "reads"} < columns
    assert len({*BY_SCORER}) == len(BY_SCORER) == len(FAMILIES) * len(columns)
    assert len(BY_TOKENIZER) == len(FAMILIES) * len(VOCABULARIES)
    assert {cell.kind for cell in BY_BOTH} == set(VOCABULARIES)


def test_padding_without_a_mask_is_told(cells, monkeypatch):
    def unmasked(*given):
        inputs = pad(*given)
        return {**inputs, "attention_mask": torch.ones_like(inputs["attention_mask"])}

    encoder = cells("BERT")
    assert encoder.outcome("1 label", lightly=True) == "equal"
    monkeypatch.setattr(heads, "pad", unmasked)
    with pytest.raises(Wrong, match="together: slate 0 differs by"):
        encoder.outcome("1 label", lightly=True)


def test_a_tree_whose_branches_see_each_other_is_told(cells, monkeypatch):
    def one_run(layout, query, key, value, scale):
        return attention.causal(query, key, value, scale)[0]

    decoder = cells("Llama 3")
    assert decoder.outcome("likelihood", lightly=True) == "equal"
    monkeypatch.setattr(attention, "_attend_tree", one_run)
    with pytest.raises(Wrong, match="together: slate 0 differs by"):
        decoder.outcome("likelihood", lightly=True)
