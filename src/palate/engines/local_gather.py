"""Attention of all runs of a pack by one kernel: which keys each sees, and the kernel.

The keys of a run stand behind each other, its ancestors' first, so that a causal mask which ends at
the last of them shows a token its ancestors and its own run so far.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from palate.engines.local_tree import Segment
from palate.models import import_torch

if TYPE_CHECKING:
    import torch
    from torch import Tensor

KeysValues = tuple["torch.Tensor", "torch.Tensor"]
Weighed = tuple["torch.Tensor", "torch.Tensor"]
"""A result, and the log of each query's summed weights."""
MOST_COPIED = 8
"""Keys that are copied for a pack, for each of its tokens."""
WIDEST, HALVES = 256, 8
"""The widest head of CUDA's kernel for many runs, and what a width must be a multiple of."""
AMPERE = (8, 0)
"""The first cards that it runs on."""


class GatherPlan(NamedTuple):
    """The keys that each run of a pack sees, copied behind each other: its ancestors', its own."""

    rows: NDArray[np.int32] | None
    """Of the keys kept before and then the pack's; None where the pack's are what is seen."""
    run_ends: NDArray[np.int32]
    """Where each run ends, from 0 on."""
    key_ends: NDArray[np.int32]
    """Where each run's keys end, likewise."""
    past: tuple[int, ...]
    """The segments kept before whose keys are copied."""
    apart_past: tuple[int, ...]
    """Those whose keys are not: too many runs see them."""
    apart: tuple[Segment, ...]
    """The segments of the pack likewise."""
    longest: tuple[int, int]
    """The most tokens of a run, and the most keys that one sees."""


def plan_gather(
    segments: Sequence[Segment], past: Sequence[int] = (), most: int = MOST_COPIED
) -> GatherPlan:
    """Plan the copies of a pack below kept segments of `past` tokens, at most `most` a token.

    Beyond that the ancestors with the most copies are left out, to be read apart.

    >>> root, left, right = (0, 2, 4, 0, ()), (2, 3, 3, 2, ()), (3, 4, 4, 2, ())
    >>> plan_gather([Segment(*it) for it in (root, left, right)]).rows.tolist()
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
    base, parts, ends = sum(past[k] for k in used), [np.arange(0)], [0]
    path: list[tuple[int, NDArray[np.int64]]] = [(tokens, np.arange(base))]
    for k, (start, stop, under, *_) in enumerate(segments, len(past)):
        path = [(end, rows) for end, rows in path if end > start]
        own = np.arange(base + start, base + stop)
        seen = [*(rows for _, rows in path), own]
        parts += seen
        ends.append(ends[-1] + sum(map(len, seen)))
        path.append((under, own[:0] if k in apart else own))
    run_ends, key_ends = (np.array(it, np.int32) for it in ([*starts, tokens], ends))
    return GatherPlan(
        None if total == tokens else np.concatenate(parts).astype(np.int32),
        run_ends,
        key_ends,
        used,
        tuple(k for k in range(len(past)) if k in apart),
        tuple(it for k, it in enumerate(segments, len(past)) if k in apart),
        (int(np.diff(run_ends).max()), int(np.diff(key_ends).max())),
    )


class Gather(NamedTuple):
    """A plan, where the model is."""

    plan: GatherPlan
    run_ends: Tensor
    key_ends: Tensor
    rows: Tensor

    @classmethod
    def of(cls, plan: GatherPlan, device: str) -> Gather:
        """Copy a plan to a device, all at once."""
        parts = [plan.run_ends, plan.key_ends, plan.rows]
        arrays = [np.zeros(0, np.int32) if it is None else it for it in parts]
        whole = placed(import_torch().from_numpy(np.concatenate(arrays)), device)
        return cls(plan, *whole.split([len(it) for it in arrays]))


ManyRuns = Callable[["torch.Tensor", "torch.Tensor", "torch.Tensor", Gather, float], Weighed]
"""From queries (t × heads × d), keys and values (gathered × groups × d) and a scale to the result
(t × heads × d) and the weights (heads × t, float32)."""


def many_runs_of(device: str, dtype: object) -> ManyRuns | None:
    """Return the kernel that a device has for many runs at once in this dtype, if any."""
    torch = import_torch()
    if torch.device(device).type != "cuda" or dtype == torch.float32:
        return None
    new = torch.cuda.get_device_capability(device) >= AMPERE
    return flash_runs if new and hasattr(torch.ops.aten, "_flash_attention_forward") else None


def flash_runs(query: Tensor, key: Tensor, value: Tensor, gather: Gather, scale: float) -> Weighed:
    """Return `ManyRuns` by FlashAttention, whose causal mask ends at each run's last key."""
    flash = import_torch().ops.aten._flash_attention_forward
    run, keys = gather.plan.longest
    # Runs of one token alone would take another kernel, which was not tried.
    sizes = gather.run_ends, gather.key_ends, max(run, 2), keys
    out, weight = flash(query, key, value, *sizes, 0.0, True, False, scale=scale)[:2]
    return out, weight


def placed(tensor: Tensor, device: str) -> Tensor:
    """Return a tensor on a device; CUDA copies it while this goes on."""
    if import_torch().device(device).type != "cuda":
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)
