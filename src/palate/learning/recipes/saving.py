"""A trained model's folder: weights, tokenizer, and how it was made."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from palate.errors import ResourceError, first_line
from palate.files import write_whole
from palate.models import save_tokenizer
from palate.specs import Reference

WRITER = "PytorchStreamWriter"
"""Torch names it where a disk is full."""


def save(model: Any, tokenizer: Any, folder: Path, facts: Mapping[str, Any]) -> None:
    """Write model, tokenizer and `palate.json`; raises `ResourceError` where the disk refuses."""
    text = json.dumps({"schema": 1, **facts}, indent=2) + "\n"
    with saving("the trained model"):
        model.save_pretrained(folder)
        save_tokenizer(tokenizer, folder)
        write_whole(folder / "palate.json", text)


@contextmanager
def saving(what: str) -> Iterator[None]:
    """Raise `ResourceError` where files of a model cannot be written meanwhile."""
    from safetensors import SafetensorError

    try:
        yield
    except (OSError, SafetensorError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and WRITER not in str(error):
            raise
        raise ResourceError(f"{what} cannot be saved ({first_line(error)})") from error


def named(base: Reference) -> str:
    """Return a base's name; of a folder only its own: where it lies is no property of the model."""
    return Path(base.name).name if base.place == "folder" else str(base)
