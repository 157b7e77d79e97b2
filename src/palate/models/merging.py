"""An adapter of PEFT, merged into the base that it was trained on."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from palate.errors import LoadError, ModelError, UsageError, first_line
from palate.models.adapters import CONFIG, WEIGHTS, Adapter
from palate.models.listening import listening
from palate.models.runtime import import_torch, import_transformers

TASKS = {
    "causal": ("CAUSAL_LM", None),
    "classifier": ("SEQ_CLS", None),
    "encoder": ("FEATURE_EXTRACTION", None),
}
"""What an adapter is trained for, by what it is read as; None where its trainer did not say."""
OUTPUTS = 7919
"""A number of outputs that no layer has by chance."""
PREFIX = "base_model.model."


def adapter_tensors(adapter: Adapter) -> dict[str, list[int]]:
    """Return the shapes of an adapter's tensors by their names in the base, where it has them."""
    from safetensors import safe_open

    try:
        with safe_open(adapter.folder / WEIGHTS, "pt") as file:
            return {
                key.removeprefix(PREFIX): list(file.get_slice(key).get_shape())
                for key in file.keys()  # noqa: SIM118 - which is no mapping
            }
    except Exception as error:  # what a broken file raises is anybody's guess
        raise LoadError(f"adapter {adapter.folder}: {WEIGHTS} ({first_line(error)})") from error


def outputs_of(
    folder: Path, stored: Mapping[str, list[int]], trust_remote_code: bool
) -> dict[str, int]:
    """Return how many outputs an adapter's own head has, as an option; none without one.

    Which tensor the head is, is asked of the model: one that grows with the number of outputs.
    """
    torch, auto = import_torch(), import_transformers()
    config = auto.AutoConfig.from_pretrained(
        folder, num_labels=OUTPUTS, trust_remote_code=trust_remote_code
    )
    with torch.device("meta"):
        empty = auto.AutoModelForSequenceClassification.from_config(
            config, trust_remote_code=trust_remote_code
        )
    heads = [name for name, it in empty.named_parameters() if it.shape[0] == OUTPUTS]
    rows = [stored[name][0] for name in heads if name in stored]
    return {"num_labels": rows[0]} if rows else {}


def add_adapter(
    reference: object, head: str, model: Any, adapter: Adapter, notes: list[str]
) -> Any:
    """Return the base with the adapter merged into it, a plain transformers model again.

    Raises `ModelError` for an adapter of another task, one that cannot be merged, or one that does
    not fit this base.
    """
    try:
        import peft
    except ImportError as error:
        raise UsageError(f"{reference}: an adapter needs pip install 'palate[train]'") from error
    try:
        with listening(notes, reference, adapter.folder):
            config = peft.PeftConfig.from_pretrained(str(adapter.folder))
    except Exception as error:  # what a broken folder raises is anybody's guess
        raise LoadError(f"{reference}: cannot be loaded ({first_line(error)})") from error
    if config.task_type not in TASKS[head]:
        raise ModelError(
            f"{reference}: an adapter for {config.task_type}; this needs {TASKS[head][0]}"
        )
    if config.is_prompt_learning:
        raise ModelError(
            f"{reference}: {config.peft_type.value} changes no weights; it is not read"
        )
    for key in _unread(config, adapter):
        raise ModelError(f"{reference}: {CONFIG} holds {key}, which this version of peft ignores")
    try:
        with listening(notes, reference, adapter.folder):
            _widen(model, adapter)
            adapted = peft.get_peft_model(model, config)
            keys = adapted.load_adapter(str(adapter.folder), "default", torch_device="cpu")
            merged = merge(adapted)
    except Exception as error:  # such as sizes of another base
        raise LoadError(
            f"{reference}: does not fit its base {adapter.base} ({first_line(error)})"
        ) from error
    for key in (*keys.missing_keys, *keys.unexpected_keys):
        raise ModelError(f"{reference}: does not fit its base {adapter.base} ({key})")
    return merged


def _widen(model: Any, adapter: Adapter) -> None:
    # Training that adds tokens keeps embeddings for all of them beside the adapter.
    inputs = model.get_input_embeddings().weight
    name = next((name for name, it in model.named_parameters() if it is inputs), "")
    rows = adapter_tensors(adapter).get(name, list(inputs.shape))[0]
    if rows != len(inputs):
        model.resize_token_embeddings(rows, mean_resizing=False)


def merge(adapted: Any) -> Any:
    """Return peft's model with its adapters merged into the base, a plain model again.

    Where an adapter reads one of two matrices that are tied, the two are untied first: merged into
    the shared one it would change both.
    """
    from peft.tuners.tuners_utils import BaseTunerLayer

    model = adapted.get_base_model()
    inputs, outputs = model.get_input_embeddings(), model.get_output_embeddings()
    touched = [it for it in (inputs, outputs) if isinstance(it, BaseTunerLayer)]
    head = getattr(outputs, "base_layer", outputs)
    weight: Any = getattr(head, "weight", None)
    tied = weight is not None and weight is getattr(
        getattr(inputs, "base_layer", inputs), "weight", None
    )
    # Tokens that are trained by themselves are tied by peft, which merges them so.
    if tied and any("trainable_tokens" not in type(it).__module__ for it in touched):
        head.weight = import_torch().nn.Parameter(weight.detach().clone(), weight.requires_grad)
        model.config.tie_word_embeddings = False
        model.config.get_text_config().tie_word_embeddings = False
    for key in _past_the_adapter(model):
        raise ModelError(f"{key} shares a matrix that the adapter changes elsewhere alone")
    try:
        return adapted.merge_and_unload(safe_merge=True)
    except ValueError as error:  # its check of the sums
        raise ModelError(f"an adapter cannot be merged ({first_line(error)})") from error


def _past_the_adapter(model: Any) -> list[str]:
    # peft wraps one of the layers that share it, such as T5's `shared` and not its stacks'.
    places = list(model.named_parameters(remove_duplicate=False))
    changed = {id(it) for key, it in places if key.endswith(".base_layer.weight")}
    inside = re.compile(r"\.(base_layer|original_module)\.")
    return [key for key, it in places if id(it) in changed and not inside.search(key)]


def _unread(config: Any, adapter: Adapter) -> list[str]:
    # peft drops what it does not know, and a newer one may have computed with it.
    written = json.loads((adapter.folder / CONFIG).read_text(encoding="utf-8"))
    known = {field.name for field in fields(config)} | {"runtime_config"}
    return sorted(key for key, value in written.items() if value and key not in known)
