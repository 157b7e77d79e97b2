"""GGUF files whose positions are scaled, against plain transformers; what nothing reads."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
import transformers

from gguf_files import write_gguf
from palate.errors import ModelError
from palate.models import load_weights, resolve
from palate.specs import Reference

pytest.importorskip("gguf")
DIVISORS = [1.0, 1.5, 4.0, 8.0]
"""Of a head of 8: one for each pair of numbers."""
PHI = {"pad_token_id": 0, "num_key_value_heads": 4}
YARN = {"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0,
        "rope.scaling.original_context_length": 256}  # fmt: skip
LONG = {"rope_factors_long.weight": DIVISORS, "rope_factors_short.weight": [1.0, 1.0, 1.1, 1.2]}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 64, "rope_theta": 10000.0}  # fmt: skip


def llama3_divisors():
    """Return what llama.cpp's converter writes for these parameters: plain over scaled."""
    config = transformers.LlamaConfig(
        hidden_size=32, num_attention_heads=4, head_dim=8, rope_parameters=dict(LLAMA3)
    )
    made = transformers.modeling_rope_utils.ROPE_INIT_FUNCTIONS["llama3"]
    scaled, _ = made(config, "cpu")
    return (10000.0 ** (-torch.arange(0, 8, 2) / 8) / scaled).tolist()


CASES = {
    "yarn": ("Qwen2ForCausalLM", YARN, {}, {
        "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 256}),
    "linear": ("Qwen2ForCausalLM", {"rope.scaling.type": "linear", "rope.scaling.factor": 2.0}, {},
               {"rope_type": "linear", "factor": 2.0}),
    "a factor alone": ("Qwen2ForCausalLM", {"rope.scaling.factor": 2.0}, {},
                       {"rope_type": "linear", "factor": 2.0}),
    "yarn, its magnitude": ("Qwen2ForCausalLM", {**YARN, "rope.scaling.attn_factor": 0.5}, {}, {
        "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 256,
        "attention_factor": 0.5 * (1 + 0.1 * np.log(4.0))}),
    "none": ("Qwen2ForCausalLM", {"rope.scaling.type": "none"}, {}, None),
    "divisors of every length": ("Qwen2ForCausalLM", {}, {"rope_freqs.weight": "llama3"}, LLAMA3),
    "bookkeeping": ("Qwen2ForCausalLM", {"rope.scaling.finetuned": True, "vendor.note": "x",
                                         "attention.key_length": 8, "nextn_predict_layers": 0}, {},
                    None),
    "longrope": ("Phi3ForCausalLM", {"rope.scaling.original_context_length": 64,
                                     "rope.scaling.attn_factor": 1.2}, LONG, {
        "rope_type": "longrope", "long_factor": DIVISORS, "short_factor": [1.0, 1.0, 1.1, 1.2],
        "original_max_position_embeddings": 64, "attention_factor": 1.2}),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_scaled_positions_are_those_of_plain_transformers(tiny, tmp_path, monkeypatch, name):
    monkeypatch.setenv("PALATE_CACHE", str(tmp_path / "cache"))
    architecture, keys, tensors, rope = CASES[name]
    folder = Path(tiny.model(architecture, **(PHI if "Phi" in architecture else {})))
    short = {"Qwen2ForCausalLM": "qwen2", "Phi3ForCausalLM": "phi3"}[architecture]
    tensors = {it: llama3_divisors() if v == "llama3" else v for it, v in tensors.items()}
    write_gguf(folder, tmp_path / "x.gguf", short, keys, tensors)
    found = resolve(Reference.parse(str(tmp_path / "x.gguf")))
    notes: list[str] = []
    made = load_weights("x", "causal", found.path, notes)
    assert notes == []
    config = transformers.AutoConfig.from_pretrained(folder)
    if rope is not None:
        if "Phi" in architecture:
            config.original_max_position_embeddings = 64
        config.rope_parameters = {"rope_theta": 10000.0, **rope}
    of = transformers.AutoModelForCausalLM
    plain = of.from_pretrained(folder, config=config, dtype=torch.float32)
    unscaled = of.from_pretrained(folder, dtype=torch.float32)
    for length in (30, 200):
        ids = torch.arange(3, 3 + length)[None]
        with torch.inference_mode():
            logits = made(ids).logits
            assert float((logits - plain(ids).logits).abs().max()) < 1e-4
            if rope is not None:
                assert float((logits - unscaled(ids).logits).abs().max()) > 1e-2


REFUSED = {
    "rope.scaling.type=su": ({"rope.scaling.type": "su", "rope.scaling.factor": 2.0}, {}),
    "qwen2.rope.scaling.yarn_log_multiplier": (
        {**YARN, "rope.scaling.yarn_log_multiplier": 0.1}, {}),
    "rope.scaling.type=yarn": (
        {"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0}, {}),
    "qwen2.attention.scale": ({"attention.scale": 0.5}, {}),
    "qwen2.attention.key_length": ({"attention.key_length": 16}, {}),
    "qwen2.rope.dimension_count_swa": ({"rope.dimension_count_swa": 4}, {}),
    "the tensor blk.0.attn_q_norm.weight": ({}, {"blk.0.attn_q_norm.weight": [1.0] * 8}),
    "the tensor output.scale": ({}, {"output.scale": [2.0]}),
    "rope_factors_long.weight: no scaling": (
        {}, {"rope_factors_long.weight": DIVISORS}),
    "rope_freqs.weight, rope.scaling.factor=2.0": (
        {"rope.scaling.factor": 2.0}, {"rope_freqs.weight": DIVISORS}),
    "rope.scaling.type=linear": ({"rope.scaling.type": "linear"}, {}),
    "rope_freqs.weight, rope.scaling.type=yarn": (YARN, {"rope_freqs.weight": DIVISORS}),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_nothing_reads_is_refused_by_name(tiny, tmp_path, monkeypatch, name):
    monkeypatch.setenv("PALATE_CACHE", str(tmp_path / "cache"))
    keys, tensors = REFUSED[name]
    write_gguf(Path(tiny.model("Qwen2ForCausalLM")), tmp_path / "x.gguf", "qwen2", keys, tensors)
    with pytest.raises(ModelError) as caught:
        resolve(Reference.parse(str(tmp_path / "x.gguf")))
    assert name in str(caught.value)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("x.gguf: ")


@pytest.mark.parametrize("split", [None, "default", "deepseek-v3"])
def test_a_way_to_split_texts_that_nothing_reads_is_refused(tiny, tmp_path, monkeypatch, split):
    monkeypatch.setenv("PALATE_CACHE", str(tmp_path / "cache"))
    folder = Path(tiny.model("Qwen2ForCausalLM"))
    write_gguf(folder, tmp_path / "x.gguf", "qwen2", split=split)
    with pytest.raises(ModelError, match=rf"x.gguf: tokenizer.ggml.pre \({split}\) is read by no"):
        resolve(Reference.parse(str(tmp_path / "x.gguf")))
