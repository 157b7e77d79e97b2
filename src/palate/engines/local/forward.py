"""Forward passes: how a load of sequences goes through the model.

A tree of the sequences where the model can read one, else batches padded to their longest; either
way a sequence gets what it would get alone.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from palate.engines.local.attention import KeysValues, Layout, reading
from palate.engines.local.loading import LoadedModel
from palate.engines.local.memory import halve, share_of
from palate.engines.local.padding import pad, padded
from palate.engines.local.threads import map_ordered, workers
from palate.engines.local.tree import Node, Pack, branches, build_tree, packs

if TYPE_CHECKING:
    import torch


class TokenSpan(NamedTuple):
    """A sequence, and the tokens whose outputs are wanted: from `start` up to `stop`."""

    ids: Sequence[int]
    start: int
    stop: int


TRUNK, BRANCHES = 256, 512
"""Tokens that a root and its branches need for the branches to be read at the same time."""

Reduce = Callable[["torch.Tensor", "torch.Tensor"], "torch.Tensor"]
"""From outputs (m × width) and the tokens that follow (m; −1 at an end) to m numbers or rows."""
Group = Sequence[TokenSpan]
Load = list[tuple[int, Group]]


def read_load(
    local: LoadedModel, load: Load, reduce: Reduce, logits: bool, side_by_side: int
) -> list[list[torch.Tensor]]:
    """Return what `reduce` makes of each sequence's wanted outputs, by group."""
    sequences = [one for _, group in load for one in group]
    tree = local.read_mode.tree and all(
        local.read_mode.reach is None or len(one.ids) <= local.read_mode.reach for one in sequences
    )
    run = _read_tree if tree else _read_dense
    results: list[Any] = [None] * len(sequences)
    for side in local.sides.apart([len(one.ids) for one in sequences]):
        some = [sequences[k] for k in side]
        while True:
            try:
                with local.torch.inference_mode():
                    outputs = run(local, some, reduce, logits, share_of(local, side_by_side))
                break
            except (RuntimeError, MemoryError) as error:
                halve(local, error)
        for k, output in zip(side, outputs, strict=True):
            results[k] = output
    ends = iter(results)
    return [list(islice(ends, len(group))) for _, group in load]


def _read_tree(
    local: LoadedModel, sequences: Sequence[TokenSpan], reduce: Reduce, logits: bool, share: int
) -> list[torch.Tensor]:
    torch = local.torch
    pieces_of: list[list[Any]] = [[] for _ in sequences]
    longest = max((len(one.ids) for one in sequences), default=0)
    for pack, outputs in _outputs_of(
        local, build_tree([one.ids for one in sequences]), share, logits, longest
    ):
        owners, rows, following = _wanted_rows(pack, sequences)
        if not rows:
            continue
        reduced = reduce(
            outputs[torch.tensor(rows, device=local.device)],
            torch.tensor(following, device=local.device),
        )
        taken = 0
        for k, n in owners:
            pieces_of[k].append(reduced[taken : taken + n])
            taken += n
    return [torch.cat(pieces) if pieces else torch.empty(0) for pieces in pieces_of]


def _outputs_of(
    local: LoadedModel, roots: Sequence[Node], share: int, logits: bool, length: int
) -> Iterator[tuple[Pack, torch.Tensor]]:
    lanes = workers(local.torch, local.device)
    size = sum(root.size for root in roots)
    if lanes > 1 and size <= share and all(_branches_pay(root) for root in roots):
        for trunk, dealt in branches(roots, lanes):
            layout = Layout(trunk.segments, (), trunk.keep, layers=local.layers, length=length)
            yield trunk, forward_pack(local, trunk, layout, logits)
            past = (layout.cached,)
            jobs = ((pack, partial(_branch, local, pack, past, logits, length)) for pack in dealt)
            yield from map_ordered(local.torch, local.device, jobs)
        return
    stack: list[list[KeysValues]] = []
    for pack in packs(roots, share):
        del stack[pack.depth :]
        layout = Layout(pack.segments, tuple(stack), pack.keep, layers=local.layers, length=length)
        yield pack, forward_pack(local, pack, layout, logits)
        if pack.keep is not None:
            stack.append(layout.cached)


def _branches_pay(root: Node) -> bool:
    below = root.size - len(root.tokens)
    return len(root.children) > 1 and len(root.tokens) >= TRUNK and below >= BRANCHES


def _branch(
    local: LoadedModel, pack: Pack, past: Sequence[Sequence[KeysValues]], logits: bool, length: int
) -> torch.Tensor:
    layout = Layout(pack.segments, past, layers=local.layers, length=length)
    with local.torch.inference_mode():  # which holds for one thread
        return forward_pack(local, pack, layout, logits)


def forward_pack(local: LoadedModel, pack: Pack, layout: Layout, logits: bool) -> torch.Tensor:
    """Return the outputs at a pack's tokens."""
    torch = local.torch
    tokens = torch.tensor([pack.tokens], device=local.device)
    positions = torch.tensor([pack.positions], device=local.device)
    return forward(local, tokens, positions, layout, logits)


def forward(
    local: LoadedModel,
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


def _outputs(local: LoadedModel, inputs: dict[str, Any], logits: bool) -> torch.Tensor:
    model = local.model if logits else local.model.base_model
    if "use_cache" in inspect.signature(model.forward).parameters:
        inputs["use_cache"] = False
    output = model(**inputs)
    found: torch.Tensor = output.logits if logits else output.last_hidden_state
    return found


def _wanted_rows(
    pack: Pack, sequences: Sequence[TokenSpan]
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
    local: LoadedModel, sequences: Sequence[TokenSpan], reduce: Reduce, logits: bool, share: int
) -> list[torch.Tensor]:
    torch = local.torch
    reduced: list[Any] = [None] * len(sequences)
    for batch in padded([len(one.ids) for one in sequences], 0 if local.read_mode.alone else share):
        inputs = pad(local, [sequences[k].ids for k in batch], 0)
        outputs = _outputs(local, inputs, logits)
        for row, k in enumerate(batch):
            ids, start, stop = sequences[k]
            following = torch.tensor([*ids[start + 1 : stop + 1], -1][: stop - start])
            reduced[k] = reduce(outputs[row, start:stop], following.to(local.device))
    return reduced
