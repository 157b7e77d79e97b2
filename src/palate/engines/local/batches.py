"""Which sequences go through the model together: loads of like size that keep every thread busy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from palate.engines.local.forward import Group, Load, Reduce, read_load
from palate.engines.local.loading import LoadedModel
from palate.engines.local.memory import share_of
from palate.engines.local.threads import map_ordered, workers
from palate.engines.local.tree import build_tree

if TYPE_CHECKING:
    import torch

AT_ONCE = 64
"""Groups that are looked at together for beginnings they share."""
CPU_TOKENS = 2048
"""Tokens of a pass on a CPU: more are no faster and leave the caches."""
TOGETHER = 1.1
"""What several threads on one product cost over one thread each."""


def read(
    local: LoadedModel, groups: Iterable[Group], reduce: Reduce, *, logits: bool = False
) -> Iterator[tuple[int, list[torch.Tensor]]]:
    """Yield (position of the group, what `reduce` makes of each sequence's wanted outputs).

    Outputs are the last hidden states, or with `logits` what the model's own head makes of them.
    """
    numbered = iter(enumerate(groups))
    with local.turns.of():  # meanwhile nobody has set another number of threads
        side_by_side = workers(local.torch, local.device)
    while some := list(islice(numbered, AT_ONCE)):
        most = share_of(local, side_by_side)
        target = min(most, CPU_TOKENS) if local.device == "cpu" else most
        loads = cut(some, target, side_by_side)
        exact = local.dtype == local.torch.float32
        apart = loads_apart(loads, side_by_side, all_alike=exact)
        jobs = (
            (load, partial(read_load, local, load, reduce, logits, side_by_side))
            for load in loads[:apart]
        )
        read_apart = map_ordered(local.torch, local.device, jobs, local.turns) if apart else ()
        for load, outputs in read_apart:
            yield from zip((k for k, _ in load), outputs, strict=True)
        for load in loads[apart:]:  # one after another, on all threads
            with local.turns.of():
                outputs = read_load(local, load, reduce, logits, 1)
            yield from zip((k for k, _ in load), outputs, strict=True)


def loads_apart(loads: Sequence[Load], side_by_side: int, *, all_alike: bool = False) -> int:
    """Return how many of the loads, largest first, are read on one thread each.

    The rest is read on all threads, which costs more but leaves none of them waiting at the end.
    With `all_alike`, which float32 keeps its last bits by, it is all of them or none.
    """
    sizes = [sum(unique_tokens([one.ids for one in group]) for _, group in load) for load in loads]
    lanes, left = [0] * side_by_side, sum(sizes)
    times = [TOGETHER * left / side_by_side]
    for size in sizes:
        lanes[lanes.index(min(lanes))] += size
        left -= size
        times.append(max(lanes) + TOGETHER * left / side_by_side)
    choices = (0, len(loads)) if all_alike else range(len(times))
    return min(choices, key=lambda apart: (times[apart], -apart))


def cut(groups: Load, target: int, multiple: int) -> list[Load]:
    """Deal groups into loads of about `target` tokens, neighbours in the tree together.

    Loads come largest first and, where there are enough groups, in a number that keeps all workers
    busy to the end.
    """
    ordered = sorted(groups, key=lambda it: [tuple(one.ids) for one in it[1][:1]])
    sizes = [unique_tokens([one.ids for one in group]) for _, group in ordered]
    total = sum(sizes)
    number = -(-total // max(target, 1))
    number = -(-number // multiple) * multiple
    share = total / max(number, 1)
    loads: list[tuple[int, Load]] = []
    for group, size in zip(ordered, sizes, strict=True):
        if loads and loads[-1][0] + size / 2 <= share:
            loads[-1] = (loads[-1][0] + size, [*loads[-1][1], group])
        else:
            loads.append((size, [group]))
    return [load for _, load in sorted(loads, key=lambda it: -it[0])]


def unique_tokens(sequences: Sequence[Sequence[int]]) -> int:
    """Return how many tokens a tree of these sequences holds.

    >>> unique_tokens([list(range(100)), [*range(90), 0, 1]])
    102
    """
    return sum(root.size for root in build_tree(sequences))
