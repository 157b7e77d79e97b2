"""Sequences as rows of one length, for models that cannot be read as a tree."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from palate.engines.local.loading import LoadedModel


def padded(lengths: Sequence[int], budget: int) -> Iterator[list[int]]:
    """Yield batches of positions, longest first, each within the budget of padded tokens.

    A sequence over the budget makes a batch of its own.
    """
    batch: list[int] = []
    for k in sorted(range(len(lengths)), key=lambda k: (-lengths[k], k)):
        if batch and (len(batch) + 1) * lengths[batch[0]] > budget:
            yield batch
            batch = []
        batch.append(k)
    if batch:
        yield batch


def pad_id(local: LoadedModel) -> int | None:
    """Return the token that a model pads with; None where it names none that it can read."""
    token = getattr(local.model.config.get_text_config(), "pad_token_id", None)
    rows = local.model.get_input_embeddings().weight.shape[0]
    return token if token is not None and 0 <= token < rows else None


def pad(local: LoadedModel, sequences: Sequence[Sequence[int]], token: int) -> dict[str, Any]:
    """Return tokens and mask of a batch padded on the right."""
    torch = local.torch
    longest = max(map(len, sequences))
    tokens = torch.full((len(sequences), longest), token)
    mask = torch.zeros_like(tokens)
    for row, ids in enumerate(sequences):
        tokens[row, : len(ids)] = torch.tensor(list(ids))
        mask[row, : len(ids)] = 1
    return {"input_ids": tokens.to(local.device), "attention_mask": mask.to(local.device)}
