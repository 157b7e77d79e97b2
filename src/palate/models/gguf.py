"""A GGUF file, converted once to a plain safetensors folder in palate's cache.

Reading the GGUF takes 10–15 s each time, the folder one second. transformers reads neither how
positions are scaled (but for gpt-oss) nor much else that a file may hold, and says so nowhere. Here
the first is read, and the rest refused by name.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import io
import logging
import re
from collections.abc import Iterator, Mapping
from math import log
from pathlib import Path
from typing import Any

from palate.errors import LoadError, ModelError, ResourceError
from palate.files import whole_folder
from palate.models.account import neutral
from palate.models.loading import fill, load_part, load_weights
from palate.models.runtime import import_torch, import_transformers
from palate.stores import cache_folder

FORMAT = 2
LOG = logging.getLogger("palate")
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
    **{it: it for it in ("attn_logit_softcapping", "final_logit_softcapping", "vocab_size")},
    "expert_feed_forward_length": "moe_intermediate_size",
    "expert_shared_feed_forward_length": "shared_expert_intermediate_size",
    "expert_weights_norm": "norm_topk_prob",
}
"""Keys that are harmless where the model's own field has their value."""
HARMLESS = re.compile(
    r"^(rope\.scaling\.(finetuned|type)|tensor_data_layout|attention\.causal|use_parallel_residual)$"
)
"""Bookkeeping, and what transformers takes from the tensors that are there."""
SPLITS = {"gpt-2", "phi-2", "olmo", "mpt", "smollm", "starcoder", "refact", "command-r"}
"""GPT-2's way to split a text into words, or that with digits apart, which no merge then joins."""


def convert_gguf(file: Path, content: bytes, *, exact: bool = False) -> Path:
    """Return the converted folder, converting first if it is not there; safe against a kill.

    `content` is the SHA-256 of the file. The weights are written in bfloat16, or where `exact` in
    float32, which takes twice the room and rounds nothing.
    """
    name = content.hex()[:16] + ("-float32" if exact else "")
    options = {"dtype": "float32"} if exact else {}
    target = cache_folder() / "models" / f"{file.stem}-{name}-v{FORMAT}"
    if (target / "config.json").is_file():
        return target
    LOG.info("converting %s once (about 15 s) into %s", file.name, target.parent)
    try:
        with whole_folder(target) as unfinished:
            _convert(file, unfinished, **options)
    except OSError as error:
        if not (target / "config.json").is_file():  # otherwise another process was first
            raise ResourceError(f"cannot write {target} ({error}); set PALATE_CACHE") from error
    return target


def _convert(file: Path, folder: Path, dtype: str = "bfloat16") -> None:
    torch, transformers = import_torch(), import_transformers()
    try:
        with contextlib.redirect_stderr(io.StringIO()), _parsed_once():  # its bars count tensors
            name, place = file.name, file.parent
            tokenizer = load_part("AutoTokenizer", place, name, gguf_file=name)
            read = load_weights(name, "causal", place, [], gguf_file=name, dtype=torch.float32)
            positions = _account(file, read)
    except LoadError as error:
        why = str(error.__cause__).partition("\n")[0]
        raise ModelError(f"{name}: not a GGUF that transformers can read ({why})") from error
    # A model read from GGUF counts as quantised and refuses to be saved: a fresh one does not.
    config = read.config
    if positions:
        config.rope_parameters = {**(config.rope_parameters or {}), **positions}
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    fresh = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    fill(fresh, read.state_dict())
    fresh.to(getattr(torch, dtype)).save_pretrained(folder)
    save_tokenizer(tokenizer, folder)


def _account(file: Path, model: Any) -> dict[str, Any]:
    """Return how a file scales its positions, as fields of `rope_parameters`; none for unscaled.

    Raises `ModelError` with the name of a tensor, or of a key of the architecture, that nothing
    reads and that numbers may depend on.
    """
    reader = importlib.import_module("gguf").GGUFReader(str(file))
    values = {key: field.contents() for key, field in reader.fields.items()}
    architecture = str(values["general.architecture"])
    prefix = f"{architecture}."
    stated = {key.removeprefix(prefix): v for key, v in values.items() if key.startswith(prefix)}
    parts: Any = importlib.import_module("transformers.modeling_gguf_pytorch_utils")
    listed, name = parts.GGUF_TO_TRANSFORMERS_MAPPING["config"], str(model.config.model_type)
    fields = {**listed.get(architecture, {}), **listed.get(name.removesuffix("_text"), {})}
    if name == "phi3" and "attention.sliding_window" in stated:
        model.config.sliding_window = stated.pop("attention.sliding_window")
    ways: Any = importlib.import_module("transformers.integrations.gguf.gguf_tokenizer_mapping")
    pre = values.get("tokenizer.ggml.pre")
    of_bytes = values.get("tokenizer.ggml.model") == "gpt2"
    strange = of_bytes and pre not in {*SPLITS, *ways.GGUF_PRE_TOKENIZER_SPLITS}
    unread = [f"tokenizer.ggml.pre ({pre})"] * strange
    for key, value in stated.items():
        known = key in SCALING or HARMLESS.search(key) is not None or fields.get(key, -1) != -1
        if key in EQUAL:  # some are looked at, and set nothing
            known = _equal(model.config, EQUAL[key], value)
        unread += [] if known or neutral(value) else [f"{prefix}{key} ({str(value)[:60]})"]
    processor = parts.TENSOR_PROCESSORS.get(architecture, parts.TensorProcessor)
    names = parts.get_gguf_hf_weights_map(model, processor(config=model.config.to_dict()))
    tensors = {it.name: it.data for it in reader.tensors if it.name not in names}
    for what in (*unread, *(f"the tensor {it}" for it in tensors if it not in TENSORS)):
        raise ModelError(
            f"{file.name}: {what} is read by no part of {type(model).__name__}; take the "
            "model's safetensors"
        )
    divisors = {it: data.tolist() for it, data in tensors.items()}
    return {} if architecture == "gpt-oss" else _positions(file.name, stated, divisors, model)


def _equal(config: Any, field: str, value: Any) -> bool:
    stored = getattr(config, field, None)
    if field != "head_dim":
        return bool(stored == value)
    stored = stored or config.hidden_size // config.num_attention_heads
    part = (getattr(config, "rope_parameters", None) or {}).get("partial_rotary_factor") or 1
    return value in (stored, int(stored * part))


def _positions(
    name: str, stated: Mapping[str, Any], divisors: Mapping[str, Any], model: Any
) -> dict[str, Any]:
    config = model.config
    scaling = {field: stated[key] for key, field in SCALING.items() if key in stated}
    kind = str(stated.get("rope.scaling.type", "linear" if "factor" in scaling else "none"))
    original = scaling.get("original_max_position_embeddings")
    if divisors and kind in ("none", "longrope"):
        fields = {key: value for it, value in divisors.items() for key in TENSORS[it]}
        if original is None:  # as Llama 3's, which are the same at every length
            original, fields["attention_factor"] = config.max_position_embeddings, 1.0
        if hasattr(config, "original_max_position_embeddings"):
            config.original_max_position_embeddings = original
        scaling["original_max_position_embeddings"] = original
        scaling["factor"] = config.max_position_embeddings / original
        if fields.keys() >= {"short_factor", "long_factor"}:
            return {"rope_type": "longrope", **scaling, **fields}
    elif kind == "linear" and "factor" in scaling and not divisors:
        return {"rope_type": kind, "factor": scaling["factor"]}
    elif kind == "yarn" and "factor" in scaling and original and not divisors:
        if (more := scaling.pop("attention_factor", 1)) != 1:  # times what YaRN itself has
            scaling["attention_factor"] = more * (1 + 0.1 * log(scaling["factor"]))
        return {"rope_type": kind, **scaling}
    elif kind == "none":
        return {}
    listed = ", ".join((*divisors, *(f"{it}={v}" for it, v in stated.items() if "scaling" in it)))
    raise ModelError(f"{name}: {listed}: no scaling of positions that transformers computes")


@contextlib.contextmanager
def _parsed_once() -> Iterator[None]:
    # transformers parses the file for the tokenizer, the configuration and the weights anew.
    gguf: Any = importlib.import_module("gguf")
    plain = gguf.GGUFReader
    gguf.GGUFReader = functools.cache(plain)
    try:
        yield
    finally:
        gguf.GGUFReader = plain


def save_tokenizer(tokenizer: Any, folder: Path) -> None:
    """Write a tokenizer's files, the same whether or not the hub could be reached meanwhile."""
    tokenizer.init_kwargs["local_files_only"] = False
    tokenizer.save_pretrained(folder)
