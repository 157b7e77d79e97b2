"""GGUF files of models that lie in folders, by the names of llama.cpp."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.torch import load_file


def write_gguf(
    folder: Path,
    file: Path,
    architecture: str,
    keys: Mapping[str, Any] | None = None,
    tensors: Mapping[str, Sequence[float]] | None = None,
    split: str | None = "gpt-2",
) -> None:
    """Write a folder's model and tokenizer as one file, in float32, with more keys and tensors."""
    gguf = pytest.importorskip("gguf")
    config = json.loads((folder / "config.json").read_text())
    heads, groups = config["num_attention_heads"], config["num_key_value_heads"]
    writer = gguf.GGUFWriter(str(file), architecture)
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(heads)
    writer.add_head_count_kv(groups)
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_dimension_count(config.get("head_dim") or config["hidden_size"] // heads)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(config["vocab_size"])
    for key, value in (keys or {}).items():
        name = key if key.startswith("vendor.") else f"{architecture}.{key}"
        add = {str: writer.add_string, int: writer.add_uint32, bool: writer.add_bool}
        add.get(type(value), writer.add_float32)(name, value)
    _add_tokenizer(writer, folder, config["vocab_size"], split)
    kind = next(key for key, it in gguf.MODEL_ARCH_NAMES.items() if it == architecture)
    names = gguf.get_tensor_name_map(kind, config["num_hidden_layers"])
    weights = load_file(folder / "model.safetensors")
    for key, tensor in weights.items():
        turned = {"q_proj": heads, "k_proj": groups}.get(key.split(".")[-2])
        if architecture == "llama" and turned:  # whose halves of a head lie interleaved there
            halves = tensor.view(turned, 2, -1, *tensor.shape[1:])
            weights[key] = halves.transpose(1, 2).reshape(tensor.shape)
        short = names.get_name(key, (".weight", ".bias"))
        writer.add_tensor(short, weights[key].contiguous().numpy())
    for name, values in (tensors or {}).items():
        writer.add_tensor(name, np.array(values, dtype=np.float32))
    write_parts(writer)


def _add_tokenizer(writer: Any, folder: Path, size: int, split: str | None) -> None:
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    vocabulary = tokenizer["model"]["vocab"]
    tokens = sorted(vocabulary, key=vocabulary.get)
    special = {it["content"] for it in tokenizer["added_tokens"]}
    tokens += [f"<unused {k}>" for k in range(len(tokens), size)]
    writer.add_tokenizer_model("gpt2")
    if split is not None:
        writer.add_tokenizer_pre(split)
    writer.add_token_list(tokens)
    writer.add_token_types([3 if token in special else 1 for token in tokens])
    writer.add_token_merges([" ".join(pair) for pair in tokenizer["model"]["merges"]])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_pad_token_id(0)
    writer.add_chat_template((folder / "chat_template.jinja").read_text())


def write_parts(writer: Any) -> None:
    """Write what was added, and close the file."""
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
