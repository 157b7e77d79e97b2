"""Attention over a pack: every token sees its own run so far and its ancestors, nothing else.

For a token t of a node with ancestors a: softmax over (own run up to t) ∪ (all of every a). Each
part is computed by itself and merged by its log-sum-exp (online softmax), so keys that many
sequences share are read once for all of them and copied for none.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from palate.engines.local_tree import Segment
from palate.models import import_torch, import_transformers

if TYPE_CHECKING:
    import torch
    from torch import Tensor

NAME = "palate_tree"
FOREIGN = ("softcap", "s_aux", "position_bias", "cache")
"""What some models ask of attention and a tree does not give."""
KeysValues = tuple["torch.Tensor", "torch.Tensor"]
_now = threading.local()
ROWS = 512
"""Query rows at a time where attention is written out."""
FLOATS = 4
"""Numbers of 16 bytes in float32: a width must hold whole ones for CUDA's kernel."""
Weighed = tuple["torch.Tensor", "torch.Tensor"]
"""A result, and the log of each query's summed weights."""


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
    if layout.keep is not None:
        start, stop, *_ = layout.segments[layout.keep]
        layout.cached.append(_cached(layout, key[:, :, start:stop], value[:, :, start:stop]))
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


def itself(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float) -> Weighed:
    """Return attention of every token to itself alone; shapes as in `dense`."""
    groups = query.shape[1] // key.shape[1]
    keys, values = (it.repeat_interleave(groups, dim=1) for it in (key, value))
    return values, (query.float() * keys.float()).sum(dim=-1) * scale


def causal(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float) -> Weighed:
    """Return attention of a run to itself, and the log of each row's summed weights (float32).

    Shapes: query 1 × heads × t × d, key and value 1 × groups × t × d; heads are dealt to groups in
    order.
    """
    groups = query.shape[1] // key.shape[1]
    if query.device.type == "cpu":  # the repeated heads are a view
        lead = query[0].unflatten(0, (-1, groups))
        keys, values = (it[0].unsqueeze(1).expand(-1, groups, -1, -1) for it in (key, value))
        out, weight = _kernel(lead, keys, values, True, scale)
        return out.flatten(0, 1).unsqueeze(0), weight.flatten(0, 1).unsqueeze(0)
    keys, values = (it.repeat_interleave(groups, dim=1) for it in (key, value))
    return _kernel(query, keys, values, True, scale)


def dense(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float) -> Weighed:
    """Return attention of every query to every key, and the log of each row's summed weights.

    Shapes: query b × heads × t × d, key and value b × groups × s × d.
    """
    groups, rows = query.shape[1] // key.shape[1], query.shape[2]
    # Without a mask one row is like another: the heads of a group go on the row axis.
    folded = query.unflatten(1, (-1, groups)).flatten(2, 3)
    out, weight = _kernel(folded, key, value, False, scale)
    apart = (groups, rows)
    return out.unflatten(2, apart).flatten(1, 2), weight.unflatten(2, apart).flatten(1, 2)


def _kernel(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, is_causal: bool, scale: float
) -> Weighed:
    torch = import_torch()
    same = query.shape[-1] == value.shape[-1]
    if query.device.type == "cpu" and same:
        flash = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
        out, weight = flash(query, key, value, 0.0, is_causal, scale=scale)
        return out, weight
    if query.device.type == "cuda" and same and query.dtype != torch.float32:
        flash = torch.ops.aten._scaled_dot_product_flash_attention
        out, weight = flash(query, key, value, 0.0, is_causal, scale=scale)[:2]
        return out, weight
    if query.device.type == "cuda" and same and query.shape[-1] % FLOATS == 0:
        # Its products are of float32's own precision, whatever is said of TF32.
        efficient = torch.ops.aten._scaled_dot_product_efficient_attention
        out, weight = efficient(query, key, value, None, True, 0.0, is_causal, scale=scale)[:2]
        return out, weight[..., : query.shape[-2]]  # which come in full blocks of rows
    return written_out(query, key, value, is_causal, scale)


def written_out(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, is_causal: bool, scale: float
) -> Weighed:
    """Return what the fast kernels return, by the formula, in float32, some rows at a time."""
    torch = import_torch()
    outs, weights = [], []
    for first in range(0, query.shape[-2], ROWS):
        some = query[..., first : first + ROWS, :].float()
        scores = some @ key.float().transpose(-1, -2) * scale
        if is_causal:
            rows = torch.arange(first, first + some.shape[-2], device=query.device)
            later = torch.arange(key.shape[-2], device=query.device) > rows[:, None]
            scores = scores.masked_fill(later, float("-inf"))
        weight = torch.logsumexp(scores, dim=-1)
        outs.append((torch.exp(scores - weight[..., None]) @ value.float()).to(query.dtype))
        weights.append(weight)
    return torch.cat(outs, dim=-2), torch.cat(weights, dim=-1)
