"""A GGUF file, converted once to a plain safetensors folder in palate's cache.

Reading the GGUF takes 10–15 s each time, the folder one second.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import io
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from palate.errors import LoadError, ModelError, ResourceError
from palate.files import whole_folder
from palate.models.gguf_account import account_gguf
from palate.models.loading import fill, load_part, load_weights
from palate.models.runtime import import_torch, import_transformers
from palate.stores import cache_folder

FORMAT = 2
LOG = logging.getLogger("palate")


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
            how: dict[str, Any] = {"gguf_file": name, "dtype": torch.float32}
            read = load_weights(name, "causal", place, [], **how)
            positions = account_gguf(file, read)
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
