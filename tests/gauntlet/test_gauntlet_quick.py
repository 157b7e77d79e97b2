"""The gauntlet can fail: what is read wrongly is told; and one family of each way of reading."""

from __future__ import annotations

import shutil

import pytest

pytest.importorskip("torch")

import torch
from cell_grids import BY_BOTH, BY_SCORER, BY_TOKENIZER, Cell
from cells import SLATES, Wrong
from families import FAMILIES
from outcomes import expected
from vocabularies import VOCABULARIES

from palate.engines import local_attention as attention
from palate.engines import local_model as heads
from palate.engines import pad
from palate.errors import ModelError
from palate.scorers import build_scorer
from palate.session import default_session
from tiny import change_json

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


def test_a_pooler_that_a_classifier_reads_is_not_made_up(shelf, tmp_path):
    # Which a process reward model lacks: what came out would be drawn at random.
    folder = tmp_path / "steps"
    shutil.copytree(shelf.step_classifier("DeBERTa V2"), folder)
    change_json(folder / "config.json", architectures=None)
    scorer = build_scorer(f"classifier:{folder}?head=1", default_session())
    with pytest.raises(ModelError, match=r"the weights lack pooler\.dense\.bias; .* classifier"):
        list(scorer.score(SLATES))


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
    monkeypatch.setattr(attention, "attend_tree", one_run)
    with pytest.raises(Wrong, match="together: slate 0 differs by"):
        decoder.outcome("likelihood", lightly=True)
