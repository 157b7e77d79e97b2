"""The number of tokens held at a time, and what happens where memory runs out."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from palate.engines.local.loading import LoadedModel
from palate.errors import ResourceError

NO_MEMORY = ("out of memory", "not enough memory", "can't allocate memory", "status_alloc_failed")
"""The last is what libraries of CUDA say that find no memory beside the tensors."""
SMALLEST = 64
"""Tokens a pass must be able to hold; with less, the machine is too small for the model."""


def share_of(local: LoadedModel, side_by_side: int) -> int:
    """Return how many of the tokens at a time one of several workers may hold."""
    return max(local.budget // side_by_side, SMALLEST)


def halve(local: LoadedModel, error: BaseException) -> None:
    """Go on with half the tokens at a time after an out-of-memory error; raise any other."""
    if not is_out_of_memory(error):
        raise error
    if local.budget < 2 * SMALLEST:
        raise ResourceError(
            f"{local.reference}: out of memory at {local.budget} tokens a batch"
        ) from error
    local.budget //= 2
    logging.getLogger("palate").warning(
        "%s: out of memory; going on with %d tokens at a time", local.reference, local.budget
    )
    if local.device != "cpu":
        local.torch.accelerator.empty_cache()


def is_out_of_memory(error: BaseException) -> bool:
    """Tell whether an error says that memory ran out."""
    said = str(error).lower()
    return isinstance(error, MemoryError) or any(sign in said for sign in NO_MEMORY)


@contextmanager
def within_memory(otherwise: str) -> Iterator[None]:
    """Raise `ResourceError` with these words where memory runs out meanwhile."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        raise ResourceError(otherwise) from error
