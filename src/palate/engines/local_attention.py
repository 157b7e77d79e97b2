"""Attention over a pack: every token sees its own run so far and its ancestors, nothing else.

For a token t of a node with ancestors a: softmax over (own run up to t) ∪ (all of every a). Each
part is computed by itself and merged by its log-sum-exp (online softmax), so keys that many
sequences share are read once for all of them and copied for none. On CUDA in half precision one
kernel reads all runs of a pack, each with a copy of its ancestors' keys: launches cost more there.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from palate.engines.local_kernels import (
    HALVES,
    WIDEST,
    Gather,
    KeysValues,
    ManyRuns,
    Weighed,
    causal,
    dense,
    itself,
    plan_gather,
)
from palate.engines.local_tree import Segment
from palate.models import import_torch, import_transformers

if TYPE_CHECKING:
    import torch
    from torch import Tensor

NAME = "palate_tree"
FOREIGN = ("softcap", "s_aux", "position_bias", "cache")
"""What some models ask of attention and a tree does not give."""
_now = threading.local()


@dataclass
class Layout:
    """What the attention layers of one forward pass must know, and what they leave behind."""

    segments: Sequence[Segment] = ()
    past: Sequence[Sequence[KeysValues]] = ()
    """Of each segment kept before, per layer, keys and values, which every token sees."""
    keep: int | None = None
    """The segment whose keys and values are kept."""
    layers: int = 1
    """How many layers attend, where it is known."""
    length: int | None = None
    """The length of the sequences, where these are read in pieces or among shorter ones."""
    rows: KVSteps | None = None
    """Where given, every token of the pack is the next step of a row of its own."""
    cached: list[KeysValues] = field(default_factory=list)
    layer: int = 0
    memory: list[torch.Tensor] = field(default_factory=list)
    unsupported: list[str] = field(default_factory=list)
    """What a layer asked for that a tree does not give."""
    reach: int | None = None
    """The smallest window of a layer: longer sequences need another path."""
    many_runs: ManyRuns | None = None
    """The kernel that reads all runs at once, where there is one."""
    gather: Gather | None = None
    """What it needs of the pack, made at the first layer."""
    differences: list[float] | None = None
    """Where given: how far its results are from those of run after run, by layer."""


@dataclass
class KVSteps:
    """Keys and values of each row's own steps: per layer, n × heads × room × d."""

    room: int
    taken: int = 0
    buffers: list[KeysValues] = field(default_factory=list)
    prompts: list[tuple[int, int, Sequence[Sequence[KeysValues]]]] = field(default_factory=list)
    """From which row to which one goes on from what was read before."""
    width: int = 1
    """Tokens of each row that are read now."""
    looking: bool = False
    """Whether they are other next steps, of which one may be taken."""
    looked: list[KeysValues] = field(default_factory=list)
    """Keys and values of these, per layer, n × heads × width × d."""

    def take(self, which: torch.Tensor) -> None:
        """Go on with one of the steps just looked at of each row."""
        torch, rows = import_torch(), range(len(which))
        if not self.buffers:
            self.buffers = [_room(it, self.room) for it in self.looked]
        if self.looked:  # a single token was written where it belongs
            for buffers, looked in zip(self.buffers, self.looked, strict=True):
                for buffer, it in zip(buffers, looked, strict=True):
                    chosen = it[torch.arange(len(rows), device=it.device), :, which]
                    buffer[:, :, self.taken] = chosen
        self.looked = []
        self.taken += 1

    @staticmethod
    def join(parts: Sequence[tuple[KVSteps, list[int]]]) -> KVSteps:
        """Return chosen rows of several, one after another."""
        torch, first = import_torch(), parts[0][0]
        layers = range(len(first.buffers))
        buffers = [
            tuple(torch.cat([steps.buffers[k][j][rows] for steps, rows in parts]) for j in (0, 1))
            for k in layers
        ]
        return KVSteps(first.room, first.taken, cast("list[KeysValues]", buffers))


@contextlib.contextmanager
def reading(layout: Layout) -> Iterator[Layout]:
    """Let the attention layers of this thread follow a layout."""
    _now.layout = layout
    try:
        yield layout
    finally:
        _now.layout = None


def length_of_layout() -> int | None:
    """Return the length of the sequences that this thread reads, where its layout says it."""
    layout: Layout | None = getattr(_now, "layout", None)
    return None if layout is None else layout.length


def reads_tree() -> bool:
    """Tell whether this thread reads a tree of more than one token."""
    layout: Layout | None = getattr(_now, "layout", None)
    return layout is not None and layout.rows is None and layout.segments[-1].stop > 1


def make_opaque() -> None:
    """Have compilers call the attention of a tree, which follows a layout, and not look into it."""
    known = import_transformers().AttentionInterface
    if not hasattr(known()[NAME], "_torchdynamo_disable"):
        known.register(NAME, import_torch().compiler.disable(known()[NAME]))


def register() -> None:
    """Make the tree known to transformers; where a thread follows no layout it is plain sdpa."""
    transformers = import_transformers()
    from transformers.integrations.sdpa_attention import sdpa_attention_forward
    from transformers.masking_utils import causal_mask_function, sdpa_mask

    if NAME in transformers.AttentionInterface():  # perhaps opaque by now
        return

    def attention(
        module: Any,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attention_mask: torch.Tensor | None,
        **options: Any,
    ) -> tuple[torch.Tensor, None]:
        layout: Layout | None = getattr(_now, "layout", None)
        if layout is None:
            plain = sdpa_attention_forward(module, query, key, value, attention_mask, **options)
            return plain[0], None
        if not getattr(module, "is_causal", True) or options.get("is_causal") is False:
            layout.unsupported.append("attention in both directions")
        layout.unsupported += [name for name in FOREIGN if options.get(name) is not None]
        if options.get("sliding_window"):
            _within(layout, options["sliding_window"])
        scale = options.get("scaling") or query.shape[-1] ** -0.5
        attend = attend_rows if layout.rows is not None else attend_tree
        out = attend(layout, query, key, value, scale)
        layout.layer += 1
        return out.transpose(1, 2), None

    def mask(**options: Any) -> torch.Tensor | None:
        layout: Layout | None = getattr(_now, "layout", None)
        if layout is None:
            plain: torch.Tensor | None = sdpa_mask(**options)
            return plain
        if options.get("local_size"):
            _within(layout, options["local_size"])
        elif options.get("mask_function") is not causal_mask_function:
            layout.unsupported.append("a mask of its own")
        return None

    transformers.AttentionInterface.register(NAME, attention)
    transformers.AttentionMaskInterface.register(NAME, mask)


def _within(layout: Layout, window: int) -> None:
    layout.reach = min(window, layout.reach or window)


def attend_tree(
    layout: Layout, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float
) -> torch.Tensor:
    """Return the attention of runs that hang below each other: each sees what is above it."""
    width, kernel = query.shape[-1], layout.many_runs
    if kernel is not None and width == value.shape[-1] <= WIDEST and width % HALVES == 0:
        out = _at_once(layout, kernel, query, (key, value), scale)
        if layout.differences is not None:
            plain = _run_by_run(layout, query, key, value, scale).float()
            layout.differences.append(float((out.float() - plain).norm() / plain.norm()))
    else:
        out = _run_by_run(layout, query, key, value, scale)
    if layout.keep is not None:
        start, stop, *_ = layout.segments[layout.keep]
        layout.cached.append(_cached(layout, key[:, :, start:stop], value[:, :, start:stop]))
    return out


def _at_once(
    layout: Layout, kernel: ManyRuns, query: Tensor, pack: KeysValues, scale: float
) -> Tensor:
    earlier = [of_layers[layout.layer] for of_layers in layout.past]
    if layout.gather is None:
        past = [keys.shape[2] for keys, _ in earlier]
        layout.gather = plan_gather(layout.segments, past, str(query.device))
    gather = layout.gather

    def gathered(j: int) -> Tensor:
        whole = pack[j]
        if gather.past:
            whole = import_torch().cat([*(earlier[k][j] for k in gather.past), whole], dim=2)
        whole = whole if gather.rows is None else whole.index_select(2, gather.rows)
        return whole[0].transpose(0, 1)

    by_token = query[0].transpose(0, 1), gathered(0), gathered(1)
    out, weight = (it[None] for it in kernel(*by_token, gather, scale))
    out = out.transpose(1, 2)
    for seen in (it for k, it in enumerate(earlier) if k not in gather.past):
        _merge(out, weight, slice(0, query.shape[2]), dense(query, *seen, scale))
    for start, stop, below, *_ in gather.apart:
        keys, values = (it[:, :, start:stop] for it in pack)
        under = slice(stop, below)
        _merge(out, weight, under, dense(query[:, :, under], keys, values, scale))
    return out


def _run_by_run(
    layout: Layout, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float
) -> torch.Tensor:
    torch = import_torch()
    out: Tensor = torch.empty_like(query)
    weight = query.new_empty(query.shape[:-1], dtype=torch.float32)
    for start, stop, *_ in layout.segments:
        run = slice(start, stop)
        out[:, :, run], weight[:, :, run] = causal(
            query[:, :, run], key[:, :, run], value[:, :, run], scale
        )
    for start, stop, below, *_ in layout.segments:
        if below > stop:
            under = slice(stop, below)
            seen = key[:, :, start:stop], value[:, :, start:stop]
            _merge(out, weight, under, dense(query[:, :, under], *seen, scale))
    for earlier in layout.past:
        every = slice(0, query.shape[2])
        _merge(out, weight, every, dense(query, *earlier[layout.layer], scale))
    return out


def _cached(layout: Layout, key: torch.Tensor, value: torch.Tensor) -> KeysValues:
    # All layers of a run in one piece of memory: many small ones would leave holes behind.
    layers = max(layout.layers, 1)
    if layout.layer % layers == 0:
        layout.memory = [it.new_empty(layers, *it.shape) for it in (key, value)]
    keys, values = (room[layout.layer % layers] for room in layout.memory)
    return keys.copy_(key), values.copy_(value)


def _merge(out: torch.Tensor, weight: torch.Tensor, rows: slice, more: Weighed) -> None:
    # Two softmaxes over disjoint keys: each result counts by its share of the summed weights.
    torch = import_torch()
    more_out, more_weight = more
    before = weight[:, :, rows]
    share = torch.sigmoid(more_weight - before).unsqueeze(-1)
    out[:, :, rows] = torch.lerp(out[:, :, rows], more_out, share.to(out.dtype))
    weight[:, :, rows] = torch.logaddexp(before, more_weight)


def attend_rows(
    layout: Layout, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float
) -> torch.Tensor:
    """Return the attention of one more token in each of many rows that are written together."""
    steps = layout.rows
    assert steps is not None
    fresh = [_by_row(it, steps.width) for it in (key, value)]  # n × heads × width × d
    queries = _by_row(query, steps.width)
    if not steps.looking:
        if layout.layer == len(steps.buffers):
            steps.buffers.append(_room((fresh[0], fresh[1]), steps.room))
        buffers = steps.buffers[layout.layer]
        for buffer, it in zip(buffers, fresh, strict=True):
            buffer[:, :, steps.taken : steps.taken + 1] = it
        keys, values = (buffer[:, :, : steps.taken + 1] for buffer in buffers)
        out, total = _side_by_side(dense(queries, keys, values, scale))
    else:
        steps.looked.append((fresh[0], fresh[1]))
        out, total = _side_by_side(itself(queries, fresh[0], fresh[1], scale))
        if steps.taken:
            keys, values = (it[:, :, : steps.taken] for it in steps.buffers[layout.layer])
            every = slice(0, query.shape[2])
            _merge(out, total, every, _side_by_side(dense(queries, keys, values, scale)))
    for start, stop, past in steps.prompts:
        rows = slice(start * steps.width, stop * steps.width)
        for earlier in past:
            _merge(out, total, rows, dense(query[:, :, rows], *earlier[layout.layer], scale))
    return out


def _room(fresh: KeysValues, room: int) -> KeysValues:
    keys, values = (it.new_empty(*it.shape[:2], room, it.shape[-1]) for it in fresh)
    return keys, values


def _by_row(tokens: torch.Tensor, width: int) -> torch.Tensor:
    # 1 × heads × (n · width) × d → n × heads × width × d
    by_row: Tensor = tokens[0].unflatten(1, (-1, width)).transpose(0, 1)
    return by_row


def _side_by_side(result: Weighed) -> Weighed:
    # n × heads × width × d → 1 × heads × (n · width) × d
    out, weight = (it.transpose(0, 1).flatten(1, 2)[None] for it in result)
    return out.clone(), weight.clone()
