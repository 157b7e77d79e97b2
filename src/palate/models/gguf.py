"""A GGUF file, converted once to a plain safetensors folder in palate's cache.

Reading the GGUF takes 15–20 s each time, the folder one second.
"""

from __future__ import annotations

import contextlib
import io
import logging
import shutil
import tempfile
from pathlib import Path
from typing import Any

from palate.errors import ModelError, ResourceError
from palate.models.runtime import import_torch, import_transformers
from palate.stores import cache_folder

FORMAT = 1
LOG = logging.getLogger("palate")


def convert_gguf(file: Path, content: bytes) -> Path:
    """Return the converted folder, converting first if it is not there; safe against a kill.

    `content` is the SHA-256 of the file.
    """
    name = content.hex()[:16]
    target = cache_folder() / "models" / f"{file.stem}-{name}-v{FORMAT}"
    if (target / "config.json").is_file():
        return target
    LOG.info("converting %s once (about 20 s) into %s", file.name, target.parent)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent) as unfinished:
            made = Path(unfinished) / "model"
            _convert(file, made)
            try:
                made.rename(target)
            except OSError:  # another process was first
                if not (target / "config.json").is_file():
                    raise
                shutil.rmtree(made, ignore_errors=True)
    except OSError as error:
        raise ResourceError(f"cannot write {target} ({error}); set PALATE_CACHE") from error
    return target


def _convert(file: Path, folder: Path) -> None:
    torch, transformers = import_torch(), import_transformers()
    options = {"gguf_file": file.name}
    try:
        with contextlib.redirect_stderr(io.StringIO()):  # its bars count tensors
            tokenizer = transformers.AutoTokenizer.from_pretrained(file.parent, **options)
            read = transformers.AutoModelForCausalLM.from_pretrained(
                file.parent, dtype=torch.float32, **options
            )
    except (ImportError, ValueError, KeyError) as error:
        raise ModelError(f"{file.name}: not a GGUF that transformers can read ({error})") from error
    # A model read from GGUF counts as quantised and refuses to be saved: a fresh one does not.
    config = read.config
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    fresh = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    fresh.load_state_dict(read.state_dict(), strict=True)
    fresh.to(torch.bfloat16).save_pretrained(folder)
    save_tokenizer(tokenizer, folder)


def save_tokenizer(tokenizer: Any, folder: Path) -> None:
    """Write a tokenizer's files, the same whether or not the hub could be reached meanwhile."""
    tokenizer.init_kwargs["local_files_only"] = False
    tokenizer.save_pretrained(folder)
