"""The libraries of models: the one place that imports them, and what they warn of meanwhile."""

from __future__ import annotations

import ctypes
import logging
import os
import re
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from palate.errors import ELSEWHERE, LoadError, ModelError, UsageError, first_line, needing
from palate.words import shortened

DTYPES = ("float32", "bfloat16", "float16")
TOKENS = 4096
"""Tokens at a time, where nobody says how many."""
MMAP_THRESHOLD, TRIM_THRESHOLD = 32 * 2**20, 256 * 2**20
"""Bytes: the largest piece that all versions of glibc keep for later, and how much of them."""
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
KEPT_SHAPES = "32"
"""Shapes of matrices whose code oneDNN keeps, some 0.7 MB each; a pass has about ten."""
LIBRARIES = ("transformers", "transformers_modules", "peft", "sentence_transformers", "tokenizers")
LONGEST = 240
"""Characters of a warning that a note repeats."""
HARMLESS = {
    r"layers were not sharded": "of plans for several devices: a model is read whole",
    r" LOAD REPORT": "each of its tensors is accounted for, or refused by name",
    r"`(torch_dtype|rope_scaling|use_return_dict)` is deprecated": "the same field, renamed",
    r"Unrecognized keys in `rope_parameters`": "the account of config.json refuses or names them",
    r"`trust_remote_code`.* no effect": "the class is built in, and runs no code of the folder",
    r"`num_labels=\d+` which is incompatible": "names of labels: outputs are those of the weights",
    r"generation flags are not valid|generation config.*invalid": "palate samples by itself",
    r"`tokenizer_class` is .* ByteLevel": "tokenizer.json is read as its author wrote it",
    r"fast path is not available": "the slower kernels compute the same",
    r"Input and output embeddings are no longer tied": "untied on purpose, before merging",
    r"tied layer is part of the adapter|tied_target_modules": "palate unties the two",
    r"not writable": "torch copies what gguf maps into memory",
    r"Merges were not in checkpoint": "an old GGUF file: the vocabulary's order gives its merges",
    r"`runtime_config` key": "peft's settings of another process",
    r"new embeddings will be initialized|new lm_head weights": "an adapter's own rows follow",
}
"""Warnings that say nothing of the numbers, by pattern, and why."""
TIMELESS = (DeprecationWarning, PendingDeprecationWarning, FutureWarning, ResourceWarning)
"""Of names that later versions of a library drop; palate fixes those it was tested with."""
_turn = threading.RLock()


@cache
def import_torch() -> Any:
    """Import torch; OpenMP threads sleep while they wait, or a busy machine slows to a crawl.

    Of code that oneDNN makes for shapes of matrices, little is kept: texts have many lengths.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    for cache_size in ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"):
        os.environ.setdefault(cache_size, KEPT_SHAPES)
    _keep_freed_memory()
    with needing("local models need", "local"):
        import torch
    return torch


def _keep_freed_memory() -> None:
    # Else each layer's activations go back to the system and come as empty pages again, which
    # takes up to half of the time of a small model in half precision.
    allocator_options = (
        *("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_"),
        *("GLIBC_TUNABLES", "LD_PRELOAD"),
    )
    if sys.platform != "linux" or any(name in os.environ for name in allocator_options):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(M_MMAP_THRESHOLD, MMAP_THRESHOLD)
        mallopt(M_TRIM_THRESHOLD, TRIM_THRESHOLD)


@cache
def import_transformers() -> Any:
    """Import transformers after torch, its progress bars and advice switched off."""
    import_torch()
    with needing("local models need", "local"):
        import transformers
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    return transformers


def choose_device(device: str | None) -> str:
    """Return the device asked for, or the accelerator if there is one, or the CPU."""
    torch = import_torch()
    if device is not None:
        if device == "auto" or "," in device:
            limit = "a model is read on one device; where it does not fit"
            raise ModelError(f"--device {device}: {limit}, {ELSEWHERE}")
        try:
            with warnings.catch_warnings(action="ignore"):
                torch.empty(1, device=device).tolist()  # meta holds no numbers
        except (RuntimeError, AssertionError, ImportError) as error:
            reason = shortened(first_line(error), 80)
            raise ModelError(f"--device {device}: not available here ({reason})") from error
        return "cpu" if torch.device(device).type == "cpu" else device  # such as cpu:0
    if torch.accelerator.is_available():
        return str(torch.accelerator.current_accelerator())
    return "cpu"


def choose_dtype(dtype: str | None, device: str) -> Any:
    """Return the dtype asked for; by default float32 on a CPU and bfloat16 elsewhere."""
    torch = import_torch()
    name = dtype or ("float32" if device == "cpu" else "bfloat16")
    if name not in DTYPES:
        raise UsageError(f"--dtype {name}: expected one of {', '.join(DTYPES)}")
    return getattr(torch, name)


def choose_tokens(given: int | None, device: str) -> int | None:
    """Return the tokens at a time that are asked for, by default 4096; None where CUDA chooses."""
    return given or (None if device.startswith("cuda") else TOKENS)


@contextmanager
def listening(
    notes: list[str],
    name: object,
    place: Path,
    why: Callable[[Exception], str] = first_line,
    failed: str = "cannot be loaded",
) -> Iterator[list[str]]:
    """Add what libraries warn of meanwhile to the notes, each once, under a model's name.

    Gives the list that their full texts go into, the harmless ones too. Whatever is raised becomes
    a `LoadError` with `why`, which says more than they do.
    """
    texts: list[str] = []
    ear = logging.Handler(logging.WARNING)
    ear.emit = lambda record: texts.append(record.getMessage())  # type: ignore[method-assign]
    names = {*LIBRARIES, *logging.root.manager.loggerDict}
    loggers = [logging.getLogger(it) for it in names if it.partition(".")[0] in LIBRARIES]
    # What was warned of once in this process would stay unsaid for the next model.
    getattr(getattr(logging.Logger, "warning_once", None), "cache_clear", lambda: None)()
    with _turn, warnings.catch_warnings(record=True, action="always") as raised:
        disabled = logging.root.manager.disable
        before = [
            (logger.level, logger.handlers, logger.propagate, logger.disabled) for logger in loggers
        ]
        try:
            logging.disable(logging.NOTSET)  # what is refused must not hang on who hears it
            for logger in loggers:
                logger.setLevel(logging.WARNING)
                logger.handlers, logger.propagate, logger.disabled = [ear], False, False
            yield texts
        except Exception as error:  # what a broken folder raises is anybody's guess
            raise LoadError(f"{name}: {failed} ({why(error)})") from error
        finally:
            logging.disable(disabled)
            for logger, (level, handlers, propagate, off) in zip(loggers, before, strict=True):
                logger.setLevel(level)
                logger.handlers, logger.propagate, logger.disabled = handlers, propagate, off
    texts += [str(it.message) for it in raised if not issubclass(it.category, TIMELESS)]
    for text in texts:
        if not any(re.search(pattern, text) for pattern in HARMLESS):
            short = " ".join(text.replace(str(place), str(name)).split())
            short = short if len(short) <= LONGEST else f"{short[:LONGEST]}…"
            if (note := f"{name}: a library warns: {short}") not in notes:
                notes.append(note)
