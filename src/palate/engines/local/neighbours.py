"""Whether what a sequence gets depends on a longer one beside it, asked of the model itself.

Some models pool over padding, count positions from its end, or take no mask: in a batch their
numbers are those of the batch. They are read in batches of one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from palate.engines.local.loading import LoadedModel, ReadMode
from palate.engines.local.memory import is_out_of_memory
from palate.engines.local.padding import pad, pad_id

if TYPE_CHECKING:
    import torch

SHORT, LONG = "Tea?", "Tea or coffee, and which of the two is good when it is hot?"
CLOSE = {"float32": 1e-4, "bfloat16": 0.05, "float16": 0.01}
"""How far numbers may differ, relative to 1 and to theirs."""


def without_neighbours(local: LoadedModel, head: str) -> ReadMode:
    """Return how a model is read: in batches of one where it sees the padding beside a sequence."""
    mode = local.read_mode
    if local.tokenizer is None or (mode.tree and head != "classifier"):
        return mode  # a tree pads nothing
    read = _rewards if head == "classifier" else _hidden
    try:
        with local.torch.inference_mode():
            ids: list[list[int]] = [local.tokenizer(it)["input_ids"] for it in (SHORT, LONG)]
            alone = read(local, ids[:1])
            padless = head == "classifier" and pad_id(local) is None
            if padless or _is_last_token(local, ids, alone):
                return mode  # it is never padded
            apart = (read(local, ids) - alone).abs() / (1 + alone.abs())
        differs = bool(apart.max() > CLOSE[str(local.dtype).removeprefix("torch.")])
    except Exception as error:  # what a model raises that takes no batch is anybody's guess
        if is_out_of_memory(error):
            raise
        differs = head == "classifier"
    if not differs:
        return mode
    return ReadMode(False, "beside a longer text a shorter one gets another number", alone=True)


def _rewards(local: LoadedModel, sequences: Sequence[Sequence[int]]) -> torch.Tensor:
    # Of the first sequence: what the model's own head gives it.
    inputs = pad(local, sequences, pad_id(local) or 0)
    rewards: torch.Tensor = local.model(**inputs).logits[0].float()
    return rewards


def _hidden(local: LoadedModel, sequences: Sequence[Sequence[int]]) -> torch.Tensor:
    outputs = local.model.base_model(**pad(local, sequences, 0)).last_hidden_state
    first: torch.Tensor = outputs[0, : len(sequences[0])].float()
    return first


def _is_last_token(local: LoadedModel, ids: Sequence[Sequence[int]], alone: torch.Tensor) -> bool:
    # A linear head at the last token is read off the tree, without the model's own pooling.
    linear = getattr(local.model, "score", None)
    if not local.read_mode.tree or not isinstance(linear, local.torch.nn.Linear):
        return False
    last = linear(_hidden(local, ids[:1])[-1].to(linear.weight.dtype)).float()
    return bool(last.shape == alone.shape and local.torch.allclose(last, alone, atol=0.01))
