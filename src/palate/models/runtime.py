"""The one place that imports torch and transformers, set up once."""

from __future__ import annotations

import ctypes
import os
import sys
from functools import cache
from typing import Any

from palate.errors import ModelError, UsageError, needing

DTYPES = ("float32", "bfloat16", "float16")
MMAP_THRESHOLD, TRIM_THRESHOLD = 32 * 2**20, 256 * 2**20
"""Bytes: the largest piece that all versions of glibc keep for later, and how much of them."""
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3


@cache
def import_torch() -> Any:
    """Import torch; OpenMP threads sleep while they wait, or a busy machine slows to a crawl."""
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    _keep_freed_memory()
    with needing("local models need", "local"):
        import torch
    return torch


def _keep_freed_memory() -> None:
    # Else each layer's activations go back to the system and come as empty pages again, which
    # takes up to half of the time of a small model in half precision.
    allocator_options = (
        "MALLOC_MMAP_THRESHOLD_",
        "MALLOC_TRIM_THRESHOLD_",
        "GLIBC_TUNABLES",
        "LD_PRELOAD",
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
        try:
            torch.empty(0, device=device)
        except (RuntimeError, AssertionError) as error:
            reason = str(error).splitlines()[0]
            raise ModelError(f"--device {device}: not available here ({reason})") from error
        return device
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
