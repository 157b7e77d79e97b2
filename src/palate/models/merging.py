"""An adapter of PEFT: a folder, merged into the weights of the base that it was trained on."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple

from palate.errors import LoadError, ModelError, SpecError, first_line, needing
from palate.models.listening import listening
from palate.models.runtime import import_torch, import_transformers
from palate.specs import Reference

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
FIELD, PREFIX = "base_model_name_or_path", "base_model.model."
TASKS = {"causal": "CAUSAL_LM", "classifier": "SEQ_CLS", "encoder": "FEATURE_EXTRACTION"}
"""What an adapter is trained for, by what it is read as; its trainer may not have said."""
Shapes = Mapping[str, list[int]]
"""Of tensors by their names."""
OUTPUTS = 7919
"""A number of outputs that no layer has by chance."""


class Adapter(NamedTuple):
    """Where an adapter lies, and what it was trained on."""

    folder: Path
    base: Reference

    @property
    def has_tokenizer(self) -> bool:
        """Whether its trainer kept a tokenizer beside it, which then wins over the base's."""
        return (self.folder / "tokenizer_config.json").is_file()


def find_adapter(folder: Path) -> Adapter | None:
    """Return the adapter in a folder; None for a model with weights of its own.

    Raises `ModelError` where a folder holds both: transformers would add the adapter to weights
    that may hold it already.
    """
    if not (folder / CONFIG).is_file():
        return None
    own = sorted(file.name for file in folder.glob("*.safetensors") if file.name != WEIGHTS)
    if own:
        raise ModelError(
            f"model {folder}: {own[0]} and {CONFIG} lie side by side, so the adapter may be "
            f"applied twice; move {CONFIG} away if it is merged, else {own[0]}"
        )
    if not (folder / WEIGHTS).is_file():
        raise ModelError(f"adapter {folder}: no {WEIGHTS} in it")
    return Adapter(folder.resolve(), _base(folder))


def _base(folder: Path) -> Reference:
    try:
        fields = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
        name, revision = str(fields.get(FIELD) or ""), fields.get("revision")
    except (ValueError, AttributeError) as error:
        raise ModelError(f"adapter {folder}: {CONFIG} is no JSON object ({error})") from error
    if name and Path(name).expanduser().is_dir():
        return Reference(place="folder", name=name)
    where = f"write where it lies into `{FIELD}` of {folder / CONFIG}"
    if not name or Path(name).is_absolute() or name.startswith((".", "~")):
        there = f"its base {name} is not there" if name else "it names no base"
        raise ModelError(f"adapter {folder}: {there}; {where}")
    try:
        base = Reference.parse(name)
    except SpecError as error:
        raise ModelError(f"adapter {folder}: its base {name} is not there; {where}") from error
    return (
        base.model_copy(update={"revision": revision}) if base.place == "hub" and revision else base
    )


def adapter_tensors(adapter: Adapter) -> Shapes:
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


def outputs_of(folder: Path, stored: Shapes, **code: bool) -> dict[str, int]:
    """Return how many outputs an adapter's own head has, as an option; none without one.

    Which tensor the head is, is asked of the model: one that grows with the number of outputs.
    """
    torch, auto = import_torch(), import_transformers()
    config = auto.AutoConfig.from_pretrained(folder, num_labels=OUTPUTS, **code)
    with torch.device("meta"):
        empty = auto.AutoModelForSequenceClassification.from_config(config, **code)
    heads = [name for name, it in empty.named_parameters() if it.shape[0] == OUTPUTS]
    rows = [stored[name][0] for name in heads if name in stored]
    return {"num_labels": rows[0]} if rows else {}


def add_adapter(
    name: object, head: str, model: Any, adapter: Adapter, stored: Shapes, notes: list[str]
) -> Any:
    """Return the base with the adapter merged into it, a plain transformers model again.

    Raises `ModelError` for an adapter of another task, one that cannot be merged, or one that does
    not fit this base.
    """
    with needing(f"{name}: an adapter needs", "train"):
        import peft
    with listening(notes, name, adapter.folder):
        config = peft.PeftConfig.from_pretrained(str(adapter.folder))
    if config.task_type not in (None, TASKS[head]):
        raise ModelError(f"{name}: an adapter for {config.task_type}; this needs {TASKS[head]}")
    if config.is_prompt_learning:
        raise ModelError(f"{name}: {config.peft_type.value} changes no weights; it is not read")
    # peft drops what it does not know, and a newer one may have computed with it.
    written = json.loads((adapter.folder / CONFIG).read_text(encoding="utf-8"))
    known = {field.name for field in fields(config)} | {"runtime_config"}
    for key in sorted(it for it, value in written.items() if value and it not in known):
        raise ModelError(f"{name}: {CONFIG} holds {key}, which this version of peft ignores")
    failed = f"does not fit its base {adapter.base}"  # such as sizes of another
    with listening(notes, name, adapter.folder, failed=failed):
        # Training that adds tokens keeps embeddings for all of them beside the adapter.
        inputs = model.get_input_embeddings().weight
        key = next((key for key, it in model.named_parameters() if it is inputs), "")
        rows = stored.get(key, inputs.shape)[0]
        if rows != len(inputs):
            model.resize_token_embeddings(rows, mean_resizing=False)
        adapted = peft.get_peft_model(model, config)
        keys = adapted.load_adapter(str(adapter.folder), "default", torch_device="cpu")
        merged = merge(adapted)
    for key in (*keys.missing_keys, *keys.unexpected_keys):
        raise ModelError(f"{name}: {failed} ({key})")
    return merged


def merge(adapted: Any) -> Any:
    """Return peft's model with its adapters merged into the base, a plain model again.

    Where an adapter reads one of two matrices that are tied, the two are untied first: merged into
    the shared one it would change both. Raises `ModelError` where that does not part them.
    """
    from peft.tuners.tuners_utils import BaseTunerLayer

    model = adapted.get_base_model()
    ends = model.get_input_embeddings(), model.get_output_embeddings()
    # Tokens that are trained by themselves are tied by peft, which merges them so.
    touched = any(
        isinstance(it, BaseTunerLayer) and "trainable_tokens" not in type(it).__module__
        for it in ends
    )
    inputs, head = (getattr(it, "base_layer", it) for it in ends)
    weight: Any = getattr(head, "weight", None)
    if touched and weight is getattr(inputs, "weight", None) and weight is not None:
        head.weight = import_torch().nn.Parameter(weight.detach().clone(), weight.requires_grad)
        model.config.tie_word_embeddings = False
        model.config.get_text_config().tie_word_embeddings = False
    # peft wraps one of the layers that share it, such as T5's `shared` and not its stacks'.
    places = list(model.named_parameters(remove_duplicate=False))
    changed = {id(it) for key, it in places if key.endswith(".base_layer.weight")}
    for key, it in places:
        if id(it) in changed and not re.search(r"\.(base_layer|original_module)\.", key):
            raise ModelError(f"{key} shares a matrix that the adapter changes elsewhere alone")
    try:
        return adapted.merge_and_unload(safe_merge=True)
    except ValueError as error:  # its check of the sums
        raise ModelError(f"an adapter cannot be merged ({first_line(error)})") from error
