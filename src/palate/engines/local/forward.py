"""Forward passes: which tokens go through the model together, and what is kept of each.

A tree of the sequences where the model can read one, else batches padded to their longest; either
way a sequence gets what it would get alone.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from palate.engines.local.attention import KeysValues, Layout, reading
from palate.engines.local.loading import Loaded
from palate.engines.local.threads import spread, workers
from palate.engines.local.tree import Node, Pack, branches, packs, plant
from palate.errors import ResourceError

if TYPE_CHECKING:
    import torch

NO_MEMORY = ("out of memory", "not enough memory", "can't allocate memory")
SMALLEST = 64
"""Tokens a pass must be able to hold; with less, the machine is too small for the model."""
AT_ONCE = 64
"""Groups that are looked at together for beginnings they share."""
CPU_TOKENS = 2048
"""Tokens of a pass on a CPU: more are no faster and leave the caches."""


class Wanted(NamedTuple):
    """A sequence, and the tokens whose outputs are wanted: from `start` up to `stop`."""

    ids: Sequence[int]
    start: int
    stop: int


TOGETHER = 1.1
"""What several threads on one product cost over one thread each."""
TRUNK, BRANCHES = 256, 512
"""Tokens that a root and its branches need for the branches to be read at the same time."""

Reduce = Callable[["torch.Tensor", "torch.Tensor"], "torch.Tensor"]
"""From outputs (m × width) and the tokens that follow (m; −1 at an end) to m numbers or rows."""
Group = Sequence[Wanted]
Load = list[tuple[int, Group]]


def read(
    local: Loaded, groups: Iterable[Group], reduce: Reduce, *, logits: bool = False
) -> Iterator[tuple[int, list[torch.Tensor]]]:
    """Yield (position of the group, what `reduce` makes of each sequence's wanted outputs).

    Outputs are the last hidden states, or with `logits` what the model's own head makes of them.
    """
    numbered = iter(enumerate(groups))
    side_by_side = workers(local.torch, local.device)
    while some := list(islice(numbered, AT_ONCE)):
        loads = cut(some, _target(local, side_by_side), side_by_side)
        if _uneven(loads, side_by_side):  # one after another, on all threads
            for load in loads:
                found = _read_load(local, load, reduce, logits, 1)
                yield from zip((k for k, _ in load), found, strict=True)
            continue
        jobs = (
            (load, partial(_read_load, local, load, reduce, logits, side_by_side)) for load in loads
        )
        for load, found in spread(local.torch, local.device, jobs):
            yield from zip((k for k, _ in load), found, strict=True)


def _uneven(loads: Sequence[Load], side_by_side: int) -> bool:
    """Tell whether some threads would wait for others longer than working together costs."""
    sizes = [sum(unique_tokens([one.ids for one in group]) for _, group in load) for load in loads]
    lanes = [0] * side_by_side
    for size in sizes:  # largest first
        lanes[lanes.index(min(lanes))] += size
    return max(lanes) * side_by_side > TOGETHER * sum(sizes)


def _target(local: Loaded, side_by_side: int) -> int:
    most = share_of(local, side_by_side)
    return min(most, CPU_TOKENS) if local.device == "cpu" else most


def share_of(local: Loaded, side_by_side: int) -> int:
    """Return how many of the tokens at a time one of several workers may hold."""
    return max(local.budget // side_by_side, SMALLEST)


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
    return sum(root.size for root in plant(sequences))


def _read_load(
    local: Loaded, load: Load, reduce: Reduce, logits: bool, side_by_side: int
) -> list[list[torch.Tensor]]:
    sequences = [one for _, group in load for one in group]
    tree = local.route.tree and all(
        local.route.reach is None or len(one.ids) <= local.route.reach for one in sequences
    )
    run = _read_tree if tree else _read_dense
    while True:
        try:
            with local.torch.inference_mode():
                found = run(local, sequences, reduce, logits, share_of(local, side_by_side))
            break
        except (RuntimeError, MemoryError) as error:
            halve(local, error)
    ends = iter(found)
    return [list(islice(ends, len(group))) for _, group in load]


def halve(local: Loaded, error: BaseException) -> None:
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


def _read_tree(
    local: Loaded, sequences: Sequence[Wanted], reduce: Reduce, logits: bool, share: int
) -> list[torch.Tensor]:
    torch = local.torch
    found: list[list[Any]] = [[] for _ in sequences]
    for pack, outputs in _outputs_of(local, plant([one.ids for one in sequences]), share, logits):
        owners, rows, following = _wanted_rows(pack, sequences)
        if not rows:
            continue
        made = reduce(
            outputs[torch.tensor(rows, device=local.device)],
            torch.tensor(following, device=local.device),
        )
        taken = 0
        for k, n in owners:
            found[k].append(made[taken : taken + n])
            taken += n
    return [torch.cat(pieces) if pieces else torch.empty(0) for pieces in found]


def _outputs_of(
    local: Loaded, roots: Sequence[Node], share: int, logits: bool
) -> Iterator[tuple[Pack, torch.Tensor]]:
    lanes = workers(local.torch, local.device)
    size = sum(root.size for root in roots)
    if lanes > 1 and size <= share and all(_branches_pay(root) for root in roots):
        for trunk, dealt in branches(roots, lanes):
            layout = Layout(trunk.segments, (), trunk.keep, layers=local.layers)
            yield trunk, forward_pack(local, trunk, layout, logits)
            past = (layout.kept,)
            jobs = ((pack, partial(_branch, local, pack, past, logits)) for pack in dealt)
            yield from spread(local.torch, local.device, jobs)
        return
    stack: list[list[KeysValues]] = []
    for pack in packs(roots, share):
        del stack[pack.depth :]
        layout = Layout(pack.segments, tuple(stack), pack.keep, layers=local.layers)
        yield pack, forward_pack(local, pack, layout, logits)
        if pack.keep is not None:
            stack.append(layout.kept)


def _branches_pay(root: Node) -> bool:
    below = root.size - len(root.tokens)
    return len(root.children) > 1 and len(root.tokens) >= TRUNK and below >= BRANCHES


def _branch(
    local: Loaded, pack: Pack, past: Sequence[Sequence[KeysValues]], logits: bool
) -> torch.Tensor:
    with local.torch.inference_mode():  # which holds for one thread
        return forward_pack(local, pack, Layout(pack.segments, past, layers=local.layers), logits)


def forward_pack(local: Loaded, pack: Pack, layout: Layout, logits: bool) -> torch.Tensor:
    """Return the outputs at a pack's tokens."""
    torch = local.torch
    tokens = torch.tensor([pack.tokens], device=local.device)
    positions = torch.tensor([pack.positions], device=local.device)
    return forward(local, tokens, positions, layout, logits)


def forward(
    local: Loaded,
    tokens: torch.Tensor,
    positions: torch.Tensor,
    layout: Layout,
    logits: bool = False,
) -> torch.Tensor:
    """Return the outputs (tokens × width) of one row of tokens that follow a layout."""
    # A mask of ones, or transformers takes positions that start anew for sequences packed apart.
    mask = local.torch.ones_like(tokens)
    inputs = {"input_ids": tokens, "position_ids": positions, "attention_mask": mask}
    with reading(layout):
        return _outputs(local, inputs, logits)[0]


def _outputs(local: Loaded, inputs: dict[str, Any], logits: bool) -> torch.Tensor:
    model = local.model if logits else local.model.base_model
    if "use_cache" in inspect.signature(model.forward).parameters:
        inputs["use_cache"] = False
    output = model(**inputs)
    found: torch.Tensor = output.logits if logits else output.last_hidden_state
    return found


def _wanted_rows(
    pack: Pack, sequences: Sequence[Wanted]
) -> tuple[list[tuple[int, int]], list[int], list[int]]:
    owners: list[tuple[int, int]] = []
    rows: list[int] = []
    following: list[int] = []
    for segment in pack.segments:
        end = segment.offset + segment.stop - segment.start
        for k in segment.sequences:
            ids, start, stop = sequences[k]
            low, high = max(start, segment.offset), min(stop, end)
            if low >= high:
                continue
            owners.append((k, high - low))
            rows += range(
                segment.start + low - segment.offset, segment.start + high - segment.offset
            )
            following += ids[low + 1 : high + 1]
            if high == len(ids):
                following.append(-1)
    return owners, rows, following


def _read_dense(
    local: Loaded, sequences: Sequence[Wanted], reduce: Reduce, logits: bool, share: int
) -> list[torch.Tensor]:
    torch = local.torch
    found: list[Any] = [None] * len(sequences)
    for batch in padded([len(one.ids) for one in sequences], share):
        inputs = pad(local, [sequences[k].ids for k in batch], 0)
        outputs = _outputs(local, inputs, logits)
        for row, k in enumerate(batch):
            ids, start, stop = sequences[k]
            following = torch.tensor([*ids[start + 1 : stop + 1], -1][: stop - start])
            found[k] = reduce(outputs[row, start:stop], following.to(local.device))
    return found


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


def pad(local: Loaded, sequences: Sequence[Sequence[int]], token: int) -> dict[str, Any]:
    """Return tokens and mask of a batch padded on the right."""
    torch = local.torch
    longest = max(map(len, sequences))
    tokens = torch.full((len(sequences), longest), token)
    mask = torch.zeros_like(tokens)
    for row, ids in enumerate(sequences):
        tokens[row, : len(ids)] = torch.tensor(list(ids))
        mask[row, : len(ids)] = 1
    return {"input_ids": tokens.to(local.device), "attention_mask": mask.to(local.device)}
