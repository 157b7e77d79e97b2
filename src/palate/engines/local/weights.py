"""The weights of a model: loaded, and refused where another model would come out of them.

transformers fills what the weights lack at random and drops what it does not know, and says so in
a report that nobody sees. Here each of these is one line.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping
from pathlib import Path
from typing import Any

from palate.engines.local.adapter import adapter_tensors, add_adapter, outputs_of
from palate.errors import LoadError, ModelError, first_line
from palate.models import ModelFolder, import_transformers
from palate.specs import Reference

LOADERS = {
    "causal": "AutoModelForCausalLM",
    "classifier": "AutoModelForSequenceClassification",
    "encoder": "AutoModel",
}
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


def load_weights(
    reference: Reference, head: str, folder: ModelFolder, options: Mapping[str, Any]
) -> Any:
    """Return the transformers model of a folder; raises `ModelError` with the tensor's name.

    Refused are tensors that lack, that no layer reads or whose shape differs, and a model whose
    configuration names another class.
    """
    loader = getattr(import_transformers(), LOADERS[head])
    adapter = folder.adapter
    stored = adapter_tensors(adapter) if adapter is not None else {}
    if adapter is not None and head == "classifier":
        options = {**options, **outputs_of(folder, stored, options["trust_remote_code"])}
    try:
        model, info = loader.from_pretrained(
            folder.path,
            output_loading_info=True,
            use_safetensors=True,
            ignore_mismatched_sizes=True,  # which are refused below, by name
            **options,
        )
    except Exception as error:  # what a broken folder raises is anybody's guess
        why = _damaged(folder.path) or first_line(error)
        raise LoadError(f"{reference}: cannot be loaded ({why})") from error
    for problem in _problems(model, head, info, stored):
        raise ModelError(f"{reference}: {problem}")
    return model if adapter is None else add_adapter(reference, head, model, adapter)


def _problems(
    model: Any, head: str, info: Mapping[str, Any], replaced: Container[str]
) -> Iterator[str]:
    loaded = type(model).__name__
    for key, stored, wanted in sorted(info["mismatched_keys"]):
        if key not in replaced:
            yield _mismatch(model, key, tuple(stored), tuple(wanted))
    for key in sorted(info["missing_keys"]):
        # An encoder's own pooler is often left out of its weights, and is not read here.
        unread = head == "encoder" and key.startswith("pooler.")
        if key not in replaced and not unread:
            yield f"the weights lack {key}; this is {LACKING[head]}"
    if (named := _foreign(model, head)) is not None:
        has_code = getattr(model.config, "auto_map", None)
        yield (
            f"config.json says {named}, which computes something else than {loaded}; "
            + ("run its own code with --trust-remote-code" if has_code else "")
            + ("" if has_code else f"correct `architectures` there if it is a {loaded}")
        )
    for key in sorted(info["unexpected_keys"]):
        if not _harmless(model, head, key):
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
    shapes = [" × ".join(map(str, shape)) for shape in (stored, wanted)]
    labels = wanted[:1] == (getattr(model.config, "num_labels", None),) and len(wanted) <= 2
    field = " by its num_labels" if labels and stored[1:] == wanted[1:] else ""
    return (
        f"{key} is {shapes[0]} in the weights and {shapes[1]} in config.json{field}; correct it "
        "there"
    )


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


def _harmless(model: Any, head: str, key: str) -> bool:
    if UNREAD.search(key):
        return True
    if head == "encoder":  # whose hidden states are read: any head may go, no part of the body
        part = key.removeprefix(f"{model.base_model_prefix}.").partition(".")[0]
        return part not in dict(model.named_children())
    return head == "classifier" and LANGUAGE_HEADS.search(key) is not None


def _damaged(folder: Path) -> str | None:
    """Name a file of weights that cannot be opened, such as one that is cut short."""
    from safetensors import SafetensorError, safe_open

    for file in sorted(folder.glob("*.safetensors")):
        try:
            with safe_open(file, "pt"):
                pass
        except (SafetensorError, OSError) as error:
            return f"{file.name} is cut short or damaged: {first_line(error)}"
    return None
