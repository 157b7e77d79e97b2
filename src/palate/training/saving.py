"""A trained model's folder: weights, tokenizer, and how it was made."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from palate.errors import ResourceError
from palate.models import save_tokenizer
from palate.specs import Reference


def save(model: Any, tokenizer: Any, folder: Path, facts: Mapping[str, Any]) -> None:
    """Write model, tokenizer and `palate.json`; raises `ResourceError` where the disk refuses."""
    from safetensors import SafetensorError

    text = json.dumps({"schema": 1, **facts}, indent=2) + "\n"
    try:
        model.save_pretrained(folder)
        save_tokenizer(tokenizer, folder)
        (folder / "palate.json").write_text(text, encoding="utf-8")
    except (OSError, SafetensorError) as error:
        raise ResourceError(f"the trained model cannot be saved ({error})") from error


def named(base: Reference) -> str:
    """Return a base's name; of a folder only its own: where it lies is no property of the model."""
    return Path(base.name).name if base.place == "folder" else str(base)
