"""The account of a model: each tensor of its weights and each key of its configuration.

transformers fills what the weights lack at random, drops what it does not know, and says so in a
report that nobody sees. Here each of these is one line.
"""

from __future__ import annotations

import importlib
import inspect
import json
import re
from collections.abc import Container, Iterator, Mapping
from copy import copy
from dataclasses import fields
from pathlib import Path
from typing import Any

from palate.errors import ELSEWHERE, LoadError, ModelError, first_line
from palate.models.runtime import import_transformers

LACKING = {
    "classifier": "no trained classifier (see: palate train classifier)",
    "causal": "no language model that can write or read off probabilities",
    "encoder": "no model that reads texts",
}
UNREAD = re.compile(
    r"inv_freq$|(cos|sin)_cached$|(^|\.)(attn|attention|self_attn)\.(masked_)?bias$"
    r"|position_ids$|token_type_ids$|(^|\.)version$"
    r"|(^|\.)pooler\."
    r"|(^|\.)(vision\w*|visual|multi_modal_projector|audio_tower|embed_(vision|audio)|mtp\w*)\."
)
"""Buffers that are computed anew, and parts that take none in the reading of a text."""
LANGUAGE_HEADS = re.compile(
    r"^(lm_head|cls|lm_predictions|mask_predictions|generator\w*|vocab_\w+|embed_out"
    r"|sop_classifier)\.|^decoder\.(weight|bias)$"
)
"""Heads of the language model that a classifier was made from."""
DECIDING = re.compile(
    r"rope|rotary|attn|attention|softcap|scal(e|ing)|alibi|position_embedding_type"
    r"|^(sentence_transformers|sbert_ce_\w+)$"  # of cross-encoders, which read no conversation
)
"""Keys of a configuration that numbers may depend on."""
READ_ELSEWHERE = {"dual_chunk_attention_config"}
"""Read by vLLM alone, beyond the 262,144 tokens that Qwen2.5-1M was trained on."""
READ_BY_ALL = {"type", "rope_type", "partial_rotary_factor", "finetuned"}
"""Keys of `rope_parameters` that every kind reads, and one of bookkeeping."""
BOOKKEEPING = re.compile(
    r"^_"  # where from, by what: _name_or_path, _attn_implementation_autoset, _commit_hash
    r"|dropout|_pdrop$|^init|initializer|init_(std|scale|range)"  # of training alone
    r"|flash|sdpa|^attn_implementation$|fusion|fused|efficient_attention|softmax_in_fp32"  # kernels
    r"|^(auto_map|transformers_version|unsloth\w*|model_name|tokenizer_class|torchscript|license)$"
    r"|^(task_specific_params|finetuning_task|output_past|gradient_checkpointing|transformers\.js\w*)"
    r"|^(pooler_\w+|directionality|pruned_heads|is_llama_config|pretraining_tp|use_cache)$"
    r"|^(rotary|scale_attn_weights)$"  # of GPT-J, where both are how it is computed
    r"|_token_id$|^(n_ctx|seq_length|max_seq\w*|model_max_length)$"
)
"""Keys that say how a model was made or is run, and change no number."""
PROBES = (
    "The Café's 1,024 teas: don't ASK!",
    "  two\tspaces\n\n  and a line ",
    "e\u0301 ﬁ Ａ １２３ <b> https://a.b/c_d?e=1",
    "绿茶 お茶 녹차 чай 🍵",
)
"""Texts by which two readings of one vocabulary are told apart."""
READERS = (
    *("configuration_utils.py", "modeling_utils.py", "modeling_rope_utils.py"),
    *("modeling_layers.py", "masking_utils.py", "cache_utils.py"),
    "generation/configuration_utils.py",
)
"""Files of transformers that read keys of any model's configuration."""


def tensor_problems(
    model: Any, head: str, info: Mapping[str, Any], replaced: Container[str], fresh_head: bool
) -> Iterator[str]:
    """Yield a line for each tensor that lacks, that no layer reads or whose shape differs.

    And where the configuration names another class. `replaced` are those that an adapter brings;
    with `fresh_head` a classifier's own head may lack, which training draws.
    """
    loaded, body = type(model).__name__, f"{model.base_model_prefix}."
    for key, stored, wanted in sorted(info["mismatched_keys"]):
        if key not in replaced:
            yield _mismatch(model, key, tuple(stored), tuple(wanted))
    for key in sorted(info["missing_keys"]):
        # An encoder's own pooler is often left out of its weights, and is not read here.
        unread = head == "encoder" and key.startswith("pooler.")
        # Only a head reads the pooler of a body.
        drawn = fresh_head and (not key.startswith(body) or ".pooler." in key)
        if key not in replaced and not unread and not drawn:
            yield f"the weights lack {key}; this is {LACKING[head]}"
    # What a new head is put on may have been trained with any other.
    if not fresh_head and (named := _foreign(model, head)) is not None:
        way = f"correct `architectures` there if it is a {loaded}"
        if getattr(model.config, "auto_map", None):
            way = "run its own code with --trust-remote-code"
        yield f"config.json says {named}, which computes something else than {loaded}; {way}"
    for key in sorted(info["unexpected_keys"]):
        if not is_harmless(model, head, key):
            yield (
                f"the weights hold {key}, which {loaded} does not read; they were trained with "
                "another head, and without it the number is another"
            )


def _mismatch(model: Any, key: str, stored: tuple[int, ...], wanted: tuple[int, ...]) -> str:
    if 0 in stored:
        return (
            f"{key} is empty in the weights, as DeepSpeed ZeRO-3 leaves it; save them gathered "
            "(zero_to_fp32.py, or stage3_gather_16bit_weights_on_model_save)"
        )
    weights, config = (" × ".join(map(str, shape)) for shape in (stored, wanted))
    labels = wanted[:1] == (getattr(model.config, "num_labels", None),) and len(wanted) <= 2
    field = " by its num_labels" if labels and stored[1:] == wanted[1:] else ""
    return f"{key} is {weights} in the weights and {config} in config.json{field}; correct it there"


def _foreign(model: Any, head: str) -> str | None:
    """Return the class that a configuration names, where it is not the one that is loaded."""
    names = getattr(model.config, "architectures", None) or ()
    if head == "encoder" or not names or type(model).__module__.startswith("transformers_modules"):
        return None
    named, loaded = str(names[0]).removeprefix("FSDP"), type(model).__name__
    allowed = {loaded.casefold()}
    if head == "classifier":  # a trainer may keep the base's name; the head is there, or it lacks
        auto = import_transformers().models.auto.modeling_auto
        kind = model.config.model_type
        for names_of in (auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, auto.MODEL_MAPPING_NAMES):
            known = names_of.get(kind, ())
            allowed |= {it.casefold() for it in ([known] if isinstance(known, str) else known)}
    if named.casefold() in allowed or named.endswith("ForConditionalGeneration"):
        return None
    return named


def is_harmless(model: Any, head: str, key: str) -> bool:
    """Tell whether a tensor that no layer reads plays no part in what is asked of the model."""
    if UNREAD.search(key):
        return True
    if head == "encoder":  # whose hidden states are read: any head may go, no part of the body
        part = key.removeprefix(f"{model.base_model_prefix}.").partition(".")[0]
        return part not in dict(model.named_children())
    return head == "classifier" and LANGUAGE_HEADS.search(key) is not None


def neutral(value: Any) -> bool:
    """Tell whether a value switches nothing on, and multiplies by nothing but 1."""
    off: tuple[object, ...] = (None, False, 0, 1, "", "none", "default", "absolute", [], {})
    return value is not True and value in off


def check_files(folder: Path, name: object) -> None:
    """Raise `LoadError` for a file of weights that is cut short, or a tensor in two of an index.

    Which of the two is read would be chance. Refused too are 8-bit numbers without their scales.
    """
    from safetensors import SafetensorError, safe_open

    whole, index = (folder / f"model.safetensors{ending}" for ending in ("", ".index.json"))
    sharded = index.is_file() and not whole.is_file()
    listed = index.read_text(encoding="utf-8") if sharded else f'"{whole.name}"'
    holders: dict[str, str] = {}
    config = folder / "config.json"
    scaled = config.is_file() and "quantization_config" in config.read_text(encoding="utf-8")
    for file in sorted(folder.glob("*.safetensors")):
        if f'"{file.name}"' not in listed:
            continue
        try:
            with safe_open(file, "pt") as tensors:
                dtypes = {key: tensors.get_slice(key).get_dtype() for key in tensors.keys()}  # noqa: SIM118
        except (SafetensorError, OSError) as error:
            why = f"{file.name} is cut short or damaged: {first_line(error)}"
            raise LoadError(f"{name}: cannot be loaded ({why})") from error
        for key, dtype in dtypes.items():
            if dtype.startswith(("F4", "F6", "F8")) and not scaled:
                why = f"{key} is {dtype}, and config.json has no quantization_config"
                raise LoadError(f"{name}: cannot be loaded ({why} that says how it is scaled)")
            if (other := holders.setdefault(key, file.name)) != file.name:
                why = f"{key} stands in {other} and in {file.name}; take the stale one out"
                raise LoadError(f"{name}: cannot be loaded ({why})")


def quantization(folder: Path) -> str:
    """Return how a folder's weights are quantised, such as `bitsandbytes 4-bit`; empty for most."""
    try:
        written = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        inner = written.get("text_config") or {}
        how = written.get("quantization_config", inner.get("quantization_config"))
        if how is None:
            return ""
        flags = [bits for bits in (4, 8) if how.get(f"load_in_{bits}bit")]
    except (OSError, ValueError, AttributeError):  # which whoever loads the model says
        return ""
    method = how.get("quant_method") or ("bitsandbytes" if flags else "a method without a name")
    method, bits = re.sub("_([48])bit$", r" \1-bit", str(method)), (*flags, how.get("bits"))[0]
    return f"{method} {bits}-bit" if bits and "-bit" not in method else method


def check_quantization(kind: str, name: object) -> None:
    """Raise `ModelError` for weights that transformers does not read as they are quantised."""
    auto: Any = importlib.import_module("transformers.quantizers.auto")
    method, _, bits = kind.partition(" ")
    if not {method, f"{method}_{bits.replace('-', '')}"} & {*auto.AUTO_QUANTIZATION_CONFIG_MAPPING}:
        raise ModelError(f"{name}: transformers reads no weights of {kind}; {ELSEWHERE}")
    if kind == "bitsandbytes 8-bit":
        why = "what a token gets depends on the tokens read beside it"
        raise ModelError(f"{name}: in {kind} {why}; take the unquantised model, or {ELSEWHERE}")


def account_config(config: Any, folder: Path, name: object, notes: list[str]) -> None:
    """Name each key of a config.json that its class does not read, in a note of the run.

    Raises `ModelError` for one that numbers may depend on: of positions, attention or scaling.
    """
    text = config.get_text_config()
    try:
        raw = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):  # which whoever loads the model says
        return
    inner = [it for key, it in raw.items() if getattr(config, key, None) is text is not config]
    for part, written in ((config, raw), *((text, it) for it in inner)):
        built_in = type(part).__module__.startswith("transformers.")  # else its own code reads it
        others = _unread(part, written) if built_in else {}
        for key in sorted(it for it in others if DECIDING.search(it) and it not in READ_ELSEWHERE):
            value = json.dumps(others[key], default=str)[:60]
            raise ModelError(
                f"{name}: config.json holds {key} ({value}), which {type(part).__name__} does not "
                "read, and the numbers may depend on it; remove it there if they do not"
            )
        line = f"config.json holds {', '.join(sorted(others))}, which {type(part).__name__} ignores"
        if others and f"{name}: {line}" not in notes:
            notes.append(f"{name}: {line}")


def account_tokenizer(tokenizer: Any, folder: Path, name: object, notes: list[str]) -> None:
    """Note where a tokenizer's class puts parts of its own in the place of tokenizer.json's.

    Which of the two a model was trained with is not known, so it is said where ids differ. Merges
    that are dropped by lot are of training: they are switched off.
    """
    if tokenizer.is_fast and getattr(tokenizer.backend_tokenizer.model, "dropout", None):
        tokenizer.backend_tokenizer.model.dropout = None
        notes.append(f"{name}: tokenizer.json has a dropout of merges, which is not applied")
    file = folder / "tokenizer.json"
    if not tokenizer.is_fast or not file.is_file():
        return
    written = json.loads(file.read_text(encoding="utf-8"))
    backend = tokenizer.backend_tokenizer
    loaded = {
        part: None
        if (state := getattr(backend, part)) is None
        else json.loads(state.__getstate__())
        for part in ("normalizer", "pre_tokenizer")
    }
    others = [part for part, state in loaded.items() if state != written.get(part)]
    if not others:
        return
    stored = type(backend).from_file(str(file))
    stored.no_truncation()
    ids = (
        [it.encode(text, add_special_tokens=False).ids for text in PROBES]
        for it in (backend, stored)
    )
    if next(ids) != next(ids):
        notes.append(
            f"{name}: {type(tokenizer).__name__} puts its own {' and '.join(others)} in the place "
            "of those in tokenizer.json, and texts have other tokens"
        )


def _unread(config: Any, written: Mapping[str, Any]) -> dict[str, Any]:
    """Return what no field of the class and no line of its model's code reads, with its value."""
    kind = type(config)
    known = {it.name for it in fields(kind)} | {*kind.attribute_map, *kind.attribute_map.values()}
    unread = _unread_positions(config)
    if "rope_parameters" not in known:  # a property of every class, rotary or not
        names = {"rope_scaling", "rope_parameters"} - known
        unread |= {it: written[it] for it in names if written.get(it)}
    stayed = {
        key
        for key in (written.keys() & vars(config).keys()) - known - unread.keys()
        if not hasattr(kind, key) and not neutral(written[key]) and not BOOKKEEPING.search(key)
    }
    if stayed:
        here, library = Path(inspect.getfile(kind)), Path(import_transformers().__file__).parent
        files = [*here.parent.glob("modeling_*.py"), here, *(library / it for it in READERS)]
        code = "\n".join(file.read_text(encoding="utf-8") for file in files)
        stayed = {it for it in stayed if not re.search(rf"""[."']{re.escape(it)}\b""", code)}
    return unread | {it: written[it] for it in stayed}


def _unread_positions(config: Any) -> dict[str, Any]:
    """Return the keys of `rope_parameters` that their kind does not read, asked of its check."""
    unread: dict[str, Any] = {}

    def check(_: str, received: set[str], *expected: Any, **more: Any) -> None:
        known = set().union(*(it or () for it in (*expected, *more.values())))
        unread.update(dict.fromkeys(received - known - READ_BY_ALL))

    if getattr(config, "rope_parameters", None) and hasattr(config, "validate_rope"):
        probe = copy(config)
        vars(probe)["_check_received_keys"] = check
        probe.validate_rope()
    layers = [config.rope_parameters, *config.rope_parameters.values()] if unread else []
    pairs = (
        (key, it[key]) for it in layers if isinstance(it, dict) for key in unread.keys() & it.keys()
    )
    return {f"rope_parameters.{key}": value for key, value in pairs if not neutral(value)}
