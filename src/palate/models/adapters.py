"""A folder of PEFT: an adapter, which is added to the weights of its base."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

from palate.errors import ModelError, SpecError
from palate.specs import Reference

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
FIELD = "base_model_name_or_path"


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
