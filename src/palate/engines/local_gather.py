"""A card's own ways: attention of all runs of a pack by one kernel, and copies to it and from it.

The keys of a run stand behind each other, its ancestors' first, so that a causal mask which ends at
the last of them shows a token its ancestors and its own run so far.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from palate.engines.local_tree import Segment
from palate.models import import_torch

if TYPE_CHECKING:
    import torch
    from torch import Tensor

KeysValues = tuple["torch.Tensor", "torch.Tensor"]
Weighed = tuple["torch.Tensor", "torch.Tensor"]
"""A result, and the log of each query's summed weights."""
Arriving = Callable[[], Sequence["torch.Tensor"]]
"""Waits for results."""
MOST_COPIED = 8
"""Keys that are copied for a pack, for each of its tokens."""
AMPERE = (8, 0)
"""The first cards that CUDA's kernel for many runs runs on."""


class Gather(NamedTuple):
    """The keys that each run of a pack sees, copied behind each other: its ancestors', its own."""

    rows: Tensor | None
    """Of the keys kept before and then the pack's; None where the pack's are what is seen."""
    run_ends: Tensor
    """Where each run ends, from 0 on."""
    key_ends: Tensor
    """Where each run's keys end, likewise."""
    longest: tuple[int, int]
    """The most tokens of a run, and the most keys that one sees."""
    past: tuple[int, ...]
    """The segments kept before whose keys are copied; those of the others are read apart."""
    apart: tuple[Segment, ...]
    """The segments of the pack whose keys are read apart."""


ManyRuns = Callable[["torch.Tensor", "torch.Tensor", "torch.Tensor", Gather, float], Weighed]
"""From queries (t × heads × d), keys and values (gathered × groups × d) and a scale to the result
(t × heads × d) and the weights (heads × t, float32)."""


def plan_gather(
    segments: Sequence[Segment], past: Sequence[int], device: str, most: int = MOST_COPIED
) -> Gather:
    """Plan the copies of a pack below kept segments of `past` tokens, at most `most` a token.

    Beyond that the ancestors with the most copies are left out.

    >>> root, left, right = (0, 2, 4, 0, ()), (2, 3, 3, 2, ()), (3, 4, 4, 2, ())
    >>> plan_gather([Segment(*it) for it in (root, left, right)], (), "cpu").rows.tolist()
    [0, 1, 0, 1, 2, 0, 1, 3]
    """
    starts, tokens = [segment.start for segment in segments], segments[-1].stop
    below = [bisect_left(starts, it.below) - k - 1 for k, it in enumerate(segments)]
    copies = [length * len(segments) for length in past]
    copies += [n * (it.stop - it.start) for n, it in zip(below, segments, strict=True)]
    total, apart = tokens + sum(copies), set[int]()
    for k in sorted(range(len(copies)), key=lambda k: -copies[k]):
        if total > most * tokens:
            apart.add(k)
            total -= copies[k]
    used = tuple(k for k in range(len(past)) if k not in apart)
    base, parts, ends = sum(past[k] for k in used), [], [0]
    path = [(tokens, np.arange(base))]
    for k, (start, stop, under, *_) in enumerate(segments, len(past)):
        own = np.arange(base + start, base + stop)
        path = [(end, rows) for end, rows in path if end > start]
        parts += [*(rows for _, rows in path), own]
        ends.append(ends[-1] + sum(len(rows) for _, rows in path) + len(own))
        path.append((under, own[:0] if k in apart else own))
    whole = np.concatenate([[*starts, tokens], ends, *parts]).astype(np.int32)
    n = len(starts) + 1
    run_ends, key_ends, rows = placed(import_torch().from_numpy(whole), device).split([n, n, total])
    left_out = tuple(it for k, it in enumerate(segments, len(past)) if k in apart)
    longest = int(np.diff(whole[:n]).max()), int(np.diff(ends).max())
    return Gather(None if total == tokens else rows, run_ends, key_ends, longest, used, left_out)


def many_runs_of(device: str, dtype: object) -> ManyRuns | None:
    """Return the kernel that a device has for many runs at once in this dtype, if any."""
    torch = import_torch()
    if not on_card(device) or dtype == torch.float32:
        return None
    new = torch.cuda.get_device_capability(device) >= AMPERE
    return flash_runs if new and hasattr(torch.ops.aten, "_flash_attention_forward") else None


def flash_runs(query: Tensor, key: Tensor, value: Tensor, gather: Gather, scale: float) -> Weighed:
    """Return `ManyRuns` by FlashAttention, whose causal mask ends at each run's last key."""
    flash = import_torch().ops.aten._flash_attention_forward
    run, keys = gather.longest
    # Runs of one token alone would take another kernel, which was not tried.
    sizes = gather.run_ends, gather.key_ends, max(run, 2), keys
    out, weight = flash(query, key, value, *sizes, 0.0, True, False, scale=scale)[:2]
    return out, weight


def on_card(device: str) -> bool:
    """Tell whether CUDA computes, which goes on while this process does something else."""
    return bool(import_torch().device(device).type == "cuda")


def placed(tensor: Tensor, device: str) -> Tensor:
    """Return a tensor on a device; a card copies it while this goes on."""
    if not on_card(device):
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)


def fetch(tensors: Sequence[Tensor], device: str) -> Arriving:
    """Begin to bring tensors from a device to the processor; what is returned waits for them."""
    if not on_card(device) or not tensors:
        return lambda: [it.cpu() for it in tensors]
    torch, sizes = import_torch(), [it.numel() for it in tensors]
    flat = torch.cat([it.reshape(-1) for it in tensors]).to("cpu", non_blocking=True)
    done, shapes = torch.cuda.Event(), [it.shape for it in tensors]
    done.record()

    def arrived() -> list[Tensor]:
        done.synchronize()
        return [it.view(shape) for it, shape in zip(flat.split(sizes), shapes, strict=True)]

    return arrived
