"""The account of a GGUF file: each of its tensors and each key of its architecture.

transformers reads neither how positions are scaled (but for gpt-oss) nor much else that a file may
hold, and says so nowhere. Here the first is read, and the rest refused by name.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from palate.errors import ModelError

TENSORS = {
    "rope_freqs.weight": ("short_factor", "long_factor"),
    "rope_factors_short.weight": ("short_factor",),
    "rope_factors_long.weight": ("long_factor",),
}
"""Divisors of the rotary frequencies, and which fields of `longrope` they are."""
SCALING = {
    "rope.scaling.factor": "factor",
    "rope.scaling.original_context_length": "original_max_position_embeddings",
    "rope.scaling.attn_factor": "attention_factor",
    "rope.scaling.yarn_beta_fast": "beta_fast",
    "rope.scaling.yarn_beta_slow": "beta_slow",
}
"""Keys of a scaling, as transformers names them."""
EQUAL = {
    "attention.key_length": "head_dim",
    "attention.value_length": "head_dim",
    "rope.dimension_count": "head_dim",
    "attn_logit_softcapping": "attn_logit_softcapping",
    "final_logit_softcapping": "final_logit_softcapping",
    "vocab_size": "vocab_size",
    "expert_feed_forward_length": "moe_intermediate_size",
    "expert_shared_feed_forward_length": "shared_expert_intermediate_size",
    "expert_weights_norm": "norm_topk_prob",
}
"""Keys that are harmless where the model's own field has their value."""
HARMLESS = re.compile(
    r"^(rope\.scaling\.(finetuned|type)|tensor_data_layout|attention\.causal|use_parallel_residual)$"
)
"""Bookkeeping, and what transformers takes from the tensors that are there."""


def account_gguf(file: Path, model: Any) -> dict[str, Any]:
    """Return how a file scales its positions, as fields of `rope_parameters`; none for unscaled.

    Raises `ModelError` with the name of a tensor, or of a key of the architecture, that nothing
    reads and that numbers may depend on.
    """
    reader = importlib.import_module("gguf").GGUFReader(str(file))
    values = {key: field.contents() for key, field in reader.fields.items()}
    architecture = str(values["general.architecture"])
    prefix = f"{architecture}."
    stated = {key.removeprefix(prefix): v for key, v in values.items() if key.startswith(prefix)}
    read, tensors = _read_by_transformers(architecture, model)
    for key, value in stated.items():
        known = key in read or key in SCALING or HARMLESS.search(key) is not None
        if key in EQUAL:  # some are looked at, and set nothing
            known = _equal(model.config, EQUAL[key], value)
        elif key == "attention.sliding_window" and not known and model.config.model_type == "phi3":
            model.config.sliding_window, known = value, True
        off = value is not True and value in (None, False, 0, 1, "", [])
        if not (known or off):
            raise ModelError(
                f"{file.name}: {prefix}{key} ({str(value)[:60]}) is read by no part of "
                f"{type(model).__name__}; take the model's safetensors"
            )
    for tensor in reader.tensors:
        if tensor.name not in tensors and tensor.name not in TENSORS:
            raise ModelError(
                f"{file.name}: the tensor {tensor.name} is read by no part of "
                f"{type(model).__name__}; take the model's safetensors"
            )
    divisors = {it.name: it.data.tolist() for it in reader.tensors if it.name in TENSORS}
    return {} if architecture == "gpt-oss" else _positions(file.name, stated, divisors, model)


def _read_by_transformers(architecture: str, model: Any) -> tuple[set[str], set[str]]:
    """Return the keys of an architecture, and the tensors of a model, that transformers reads."""
    gguf = importlib.import_module("transformers.modeling_gguf_pytorch_utils")
    listed = gguf.GGUF_TO_TRANSFORMERS_MAPPING["config"]
    name = str(model.config.model_type).removesuffix("_text")
    read = {**listed.get(architecture, {}), **listed.get(name, {})}
    kind = gguf.TENSOR_PROCESSORS.get(architecture, gguf.TensorProcessor)
    return (
        {key for key, field in read.items() if field != -1},
        set(gguf.get_gguf_hf_weights_map(model, kind(config=model.config.to_dict()))),
    )


def _equal(config: Any, field: str, value: Any) -> bool:
    stored = getattr(config, field, None)
    if field == "head_dim":
        stored = stored or config.hidden_size // config.num_attention_heads
        if (rope := getattr(config, "rope_parameters", None)) is not None:
            return value in (stored, int(stored * (rope.get("partial_rotary_factor") or 1)))
    return bool(stored == value)


def _positions(
    name: str, stated: Mapping[str, Any], divisors: Mapping[str, Any], model: Any
) -> dict[str, Any]:
    config, kind = model.config, str(stated.get("rope.scaling.type", "none"))
    scaling = {field: stated[key] for key, field in SCALING.items() if key in stated}
    original = scaling.get("original_max_position_embeddings")
    if divisors:
        if kind not in ("none", "longrope"):
            raise ModelError(f"{name}: {next(iter(divisors))} beside rope.scaling.type={kind}")
        fields = {key: value for it, value in divisors.items() for key in TENSORS[it]}
        if len(fields) < 2:
            raise ModelError(
                f"{name}: of rope_factors_short and rope_factors_long one is not there"
            )
        if original is None:  # as Llama 3's, which are the same at every length
            original = config.max_position_embeddings
            fields["attention_factor"] = 1.0
        if hasattr(config, "original_max_position_embeddings"):
            config.original_max_position_embeddings = original
        scaling |= {"original_max_position_embeddings": original}
        scaling["factor"] = config.max_position_embeddings / original
        return {"rope_type": "longrope", **scaling, **fields}
    if kind == "linear":
        return {"rope_type": kind, "factor": scaling["factor"]}
    if kind == "yarn":
        if original is None:
            raise ModelError(f"{name}: rope.scaling.type=yarn without original_context_length")
        return {"rope_type": kind, **scaling}
    if kind != "none":
        raise ModelError(f"{name}: rope.scaling.type={kind} is none that transformers computes")
    return {}
