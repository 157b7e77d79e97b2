"""A number is that of the sequence alone, whatever the model's own pooling makes of padding."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
import transformers
from plain_forward import TOLERANCE, load

from palate.engines.local_forward import TokenSpan
from palate.errors import ModelError
from palate.records import Settings
from palate.scorers import build_scorer
from palate.session import Session
from tiny import change_json, make_slate

RESPONSES = ("Tea.", "Coffee, hot and good, and a tea.", "No.", "Tea " * 9)
SLATE = make_slate(*RESPONSES, question="Tea?")
CLASS = "LlamaForSequenceClassification"
POOLINGS = {
    "the end of the row": "hidden[:, -1]",
    "a mean without a mask": "hidden.mean(dim=1)",
    "a maximum without a mask": "hidden.max(dim=1).values",
    "a mean with a mask": "(hidden * m).sum(dim=1) / m.sum(dim=1)",
}
SAID = ("a mean without a mask", "a maximum without a mask")
"""The last is what a batch has too, and the end of the row is read off as the last token."""
CODE = """
from transformers import LlamaForSequenceClassification

class Mine(LlamaForSequenceClassification):
    def forward(self, input_ids=None, attention_mask=None, **kwargs):
        output = super().forward(input_ids=input_ids, attention_mask=attention_mask, **kwargs)
        body = self.model(input_ids=input_ids, attention_mask=attention_mask)
        hidden, m = body.last_hidden_state, attention_mask[:, :, None]
        output.logits = self.score(POOLED)
        return output
"""


def plain(folder, ids):
    loader = transformers.AutoModelForSequenceClassification
    model = loader.from_pretrained(folder, trust_remote_code=True, dtype=torch.float32).eval()
    with torch.inference_mode():
        for each in ids:
            tokens = torch.tensor([list(each)])
            yield float(model(input_ids=tokens, attention_mask=torch.ones_like(tokens)).logits)


@pytest.fixture
def own_pooling(tiny, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_MODULES_CACHE", str(tmp_path / "modules"))

    def made(name):
        folder = tmp_path / f"m{list(POOLINGS).index(name)}"
        shutil.copytree(tiny.classifier(pad_token_id=0), folder)
        (folder / "mine.py").write_text(CODE.replace("POOLED", POOLINGS[name]))
        entry = {"AutoModelForSequenceClassification": "mine.Mine"}
        change_json(folder / "config.json", auto_map=entry, architectures=["Mine"])
        return folder

    return made


@pytest.mark.parametrize("name", POOLINGS)
def test_a_models_own_pooling_gives_what_it_gives_alone_and_batches_of_one_are_said(
    own_pooling, name
):
    folder = own_pooling(name)
    scorer = build_scorer(f"classifier:{folder}", Session(), Settings(trust_remote_code=True))
    expected = list(plain(folder, scorer._encoded(SLATE)))
    for budget in (4096, 64):
        scorer.local.model.budget = budget
        ((_, scores),) = scorer.score([SLATE])
        assert scores.values == pytest.approx(expected, abs=TOLERANCE)
    found = dict(scorer.local.model.pooled(scorer._encoded(SLATE)))
    assert [float(found[k]) for k in range(4)] == pytest.approx(expected, abs=TOLERANCE)
    assert any("read in batches of one" in note for note in scorer.notes()) == (name in SAID)


def encoder_decoder(tiny, name, **config):
    """Return a folder with a tiny encoder–decoder classifier and a WordPiece tokenizer."""
    folder = Path(tiny.encoder()).parent / name
    if not folder.is_dir():
        shutil.copytree(tiny.encoder(), folder)
        torch.manual_seed(5)
        made = getattr(transformers, name)
        sizes = {"vocab_size": 100, "eos_token_id": 3, "pad_token_id": 0, "num_labels": 1}
        made(made.config_class(**sizes, **config)).save_pretrained(folder)
    return str(folder)


def pooled_as_alone(local, ids):
    """Return what the model gives for each sequence by itself, which `pooled` must give too."""
    with torch.inference_mode():
        expected = [float(local.model(torch.tensor([list(each)])).logits) for each in ids]
    found = dict(local.pooled(ids))
    assert [float(found[k]) for k in range(len(ids))] == pytest.approx(expected, abs=TOLERANCE)
    return expected


TWO = {
    "T5ForSequenceClassification": {
        "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4,
        "decoder_start_token_id": 0,
    },
    "BartForSequenceClassification": {
        "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
        "decoder_attention_heads": 4, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64,
        "max_position_embeddings": 128, "init_std": 0.5, "decoder_start_token_id": 3,
        "classifier_dropout": 0.0,
    },
}  # fmt: skip


@pytest.mark.parametrize("name", TWO)
def test_an_encoder_with_a_decoder_gives_what_it_gives_alone(tiny, name):
    local = load(encoder_decoder(tiny, name, **TWO[name]), "classifier")
    words = ("tea", "hot coffee and a good tea", "cold", "tea " * 20)
    ids = [local.tokenizer(text)["input_ids"] for text in words]
    assert len({round(value, 3) for value in pooled_as_alone(local, ids)}) == 4


@pytest.mark.parametrize("kind", ["Bert", "Roberta", "DebertaV2", "Electra"])
def test_an_encoder_that_heeds_its_mask_is_read_in_batches(tiny, kind):
    local = load(tiny.encoder(kind), "classifier")
    assert not local.read_mode.alone
    texts = ("tea", "hot coffee and a good tea")
    pooled_as_alone(local, [local.tokenizer(text)["input_ids"] for text in texts])


@pytest.mark.parametrize("pad", [-1, None])
def test_a_pad_token_that_has_no_embedding_pads_nothing(tiny, pad):
    folder = tiny.classifier(pad_token_id=pad)
    scorer = build_scorer(f"classifier:{folder}", Session(), Settings())
    expected = pooled_as_alone(scorer.local.model, scorer._encoded(SLATE))
    ((_, scores),) = scorer.score([SLATE])
    assert scores.values == pytest.approx(expected, abs=TOLERANCE)


def test_hidden_states_that_depend_on_padding_are_read_one_by_one(tiny, monkeypatch):
    body = transformers.BertModel.forward

    def unmasked(self, *args, attention_mask=None, **kwargs):
        return body(self, *args, **kwargs)

    monkeypatch.setattr(transformers.BertModel, "forward", unmasked)
    local = load(tiny.encoder(), "encoder")
    assert str(local.read_mode).startswith("batches of one")
    ids = [local.tokenizer(text)["input_ids"] for text in ("tea", "hot coffee and a good tea")]
    groups = [[TokenSpan(each, 0, len(each)) for each in ids]]
    ((_, found),) = local.hidden(groups)
    for ours, each in zip(found, ids, strict=True):
        with torch.inference_mode():
            expected = local.model(torch.tensor([each])).last_hidden_state[0]
        assert float((ours - expected).abs().max()) <= TOLERANCE


def test_a_model_that_reads_both_ways_is_no_language_model(tiny, tmp_path):
    folder = tmp_path / "both"
    torch.manual_seed(3)
    config = transformers.BertConfig(
        vocab_size=1024, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
        num_attention_heads=4, is_decoder=True,
    )  # fmt: skip
    shutil.copytree(tiny.model(), folder)
    transformers.BertLMHeadModel(config).save_pretrained(folder)
    assert "shared" in str(load(str(folder)).read_mode) or not load(str(folder)).read_mode.tree
    change_json(folder / "config.json", is_decoder=False)
    with pytest.raises(ModelError, match="its tokens see what follows them; this is no language"):
        load(str(folder))
