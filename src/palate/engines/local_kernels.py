"""Attention of queries to keys: PyTorch's kernels, products of matrices, the formula written out.

Below them a card's own ways: one kernel for all runs of a pack, and copies to it and from it. The
keys of a run stand behind each other, its ancestors' first, so that a causal mask which ends at the
last of them shows a token its ancestors and its own run so far.
"""

from __future__ import annotations

import os
import platform
from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import cache
from itertools import product
from math import exp, frexp, log
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

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
ROWS = 512
"""Query rows at a time where attention is written out."""
BLOCK, WEIGHTS, STEP = 384, 2**20, 32
"""At most so many query rows and weights has a block of products, and whole steps of tokens."""
LEAST_ROWS = 4
"""Rows from which oneDNN's products are faster than MKL's."""
LEAST_SCORES = 2**18
"""Scores of a group of heads from which products in bfloat16 are faster than the kernel."""
SMALL = 1e-9
"""Values up to so much are lost beside weights of 2⁻⁸⁶."""
SOME = 16
"""Keys that each query is compared with to guess its largest score."""
ABOVE, REACH, EXACT = 86 * log(2), (-70.0, -10.0), 0.004
"""How far a shift lies above that guess, so that a right one's weight is 2⁻⁸⁶, which needs no
rounding; between which logs of summed weights sigmoid is exp, and how exact it must be: bfloat16's
own rounding."""
FLOATS, HALVES, WIDEST = 4, 8, 256
"""Numbers of 16 bytes in float32 and in half precision: a width must hold whole ones for CUDA's
kernels, and the one for many runs knows no wider head."""


def itself(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float) -> Weighed:
    """Return attention of every token to itself alone; shapes as in `dense`."""
    groups = query.shape[1] // key.shape[1]
    keys, values = (it.repeat_interleave(groups, dim=1) for it in (key, value))
    return values, (query.float() * keys.float()).sum(dim=-1) * scale


def causal(
    query: Tensor, key: Tensor, value: Tensor, scale: float, *, products: bool = True
) -> Weighed:
    """Return attention of a run to itself, and the log of each row's summed weights (float32).

    Shapes: query 1 × heads × t × d, key and value 1 × groups × t × d; heads are dealt to groups in
    order. Without `products` it is a kernel that computes it.
    """
    if products and _products_pay(query, key, value):
        return by_products(query, key, value, True, scale)
    groups = query.shape[1] // key.shape[1]
    if query.device.type == "cpu":  # the repeated heads are a view
        lead = query[0].unflatten(0, (-1, groups))
        keys, values = (it[0].unsqueeze(1).expand(-1, groups, -1, -1) for it in (key, value))
        out, weight = _kernel(lead, keys, values, True, scale)
        return out.flatten(0, 1).unsqueeze(0), weight.flatten(0, 1).unsqueeze(0)
    keys, values = (it.repeat_interleave(groups, dim=1) for it in (key, value))
    return _kernel(query, keys, values, True, scale)


def dense(
    query: Tensor, key: Tensor, value: Tensor, scale: float, *, products: bool = True
) -> Weighed:
    """Return attention of every query to every key, and the log of each row's summed weights.

    Shapes: query b × heads × t × d, key and value b × groups × s × d.
    """
    if products and _products_pay(query, key, value):
        return by_products(query, key, value, False, scale)
    groups, rows = query.shape[1] // key.shape[1], query.shape[2]
    # Without a mask one row is like another: the heads of a group go on the row axis.
    folded = query.unflatten(1, (-1, groups)).flatten(2, 3)
    out, weight = _kernel(folded, key, value, False, scale)
    apart = (groups, rows)
    return out.unflatten(2, apart).flatten(1, 2), weight.unflatten(2, apart).flatten(1, 2)


def _products_pay(query: Tensor, key: Tensor, value: Tensor) -> bool:
    torch, groups = import_torch(), key.shape[1]
    scores = query.shape[1] // groups * query.shape[2] * key.shape[2]
    on_cpu = query.device.type == "cpu" and query.dtype == torch.bfloat16
    same = query.shape[-1] == value.shape[-1]
    wanted = on_cpu and same and scores >= LEAST_SCORES and products_are_fast()
    return wanted and float(value.abs().max()) > SMALL


@cache
def onednn_is_faster() -> bool:
    """Tell whether oneDNN outruns MKL, which PyTorch leaves float32's products to, as exactly.

    MKL uses AVX-512 on Intel's processors alone.
    """
    torch, limited = import_torch(), {"ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"} & os.environ.keys()
    if limited or torch.backends.cpu.get_cpu_capability() != "AVX512" or not made_by_amd():
        return False
    left, right = (torch.linspace(-1, 1, 4 * n).view(n, 4) for n in (LEAST_ROWS, 3))
    try:
        product = torch.ops.mkldnn._linear_pointwise(left, right, None, "none", [], "")
    except (AttributeError, RuntimeError):  # another version of PyTorch
        return False
    return bool(torch.allclose(product, left @ right.T, atol=1e-5))


def made_by_amd() -> bool:
    """Tell whether the processor says that it is AMD's."""
    file = Path("/proc/cpuinfo")
    name = file.read_text(encoding="utf-8") if file.is_file() else platform.processor()
    return "AuthenticAMD" in name


def multiply_by_onednn(model: torch.nn.Module) -> None:
    """Let linear layers multiply by oneDNN, where no gradient is wanted of them.

    A layer that computes otherwise keeps its own way: quantised weights, a `forward` of its own.
    """
    torch = import_torch()
    for layer in model.modules():
        usual = type(layer) is torch.nn.Linear and type(layer.weight) is torch.nn.Parameter
        if usual and "forward" not in vars(layer) and layer.weight.dtype == torch.float32:
            layer.__class__ = _linear_by_onednn()


@cache
def _linear_by_onednn() -> type:
    torch = import_torch()
    plain, onednn = torch.nn.functional.linear, torch.ops.mkldnn._linear_pointwise

    def by_onednn(rows: Tensor, weight: Tensor, bias: Tensor | None) -> Any:
        few = rows.numel() < LEAST_ROWS * rows.shape[-1]
        if few or not rows.dtype == weight.dtype == torch.float32:
            return plain(rows, weight, bias)
        return onednn(rows, weight, bias, "none", [], "")

    # Compilers do not look into it: they know no product of oneDNN's of weights that may change.
    schema = "(Tensor rows, Tensor weight, Tensor? bias) -> Tensor"
    opaque = torch.library.custom_op("palate::product", by_onednn, mutates_args=(), schema=schema)
    opaque.register_fake(lambda rows, weight, bias: rows.new_empty(*rows.shape[:-1], len(weight)))

    def forward(layer: Any, rows: Tensor) -> Any:
        compiling = torch.compiler.is_compiling()  # compilers are not told of inference mode
        wanted = torch.is_grad_enabled() if compiling else not torch.is_inference_mode_enabled()
        multiply = plain if wanted else opaque if compiling else by_onednn
        return multiply(rows, layer.weight, layer.bias)

    return type("LinearByOneDnn", (torch.nn.Linear,), {"forward": forward})


@cache
def products_are_fast() -> bool:
    """Tell whether products in bfloat16 outrun the kernel here, and give weights as exact.

    With matrix tiles a kernel multiplies as fast. What oneDNN may use is not to be asked, so where
    that is limited the kernel stays.
    """
    torch = import_torch()
    try:
        fast = torch.cpu._is_avx512_bf16_supported() and not torch.cpu._is_amx_tile_supported()
        if not fast or {"ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"} & os.environ.keys():
            return False
        scores = torch.arange(REACH[0], REACH[1], dtype=torch.bfloat16)[:, None]
        linear = torch.ops.mkldnn._linear_pointwise
        weights = linear(scores, torch.ones_like(scores[:1]), None, "sigmoid", [], "")
    except (AttributeError, RuntimeError):  # another version of PyTorch
        return False
    right = [exp(score) for score in scores[:, 0].tolist()]
    pairs = zip(weights[:, 0].tolist(), right, strict=True)
    return all(abs(weight / exact - 1) < EXACT for weight, exact in pairs)


def by_products(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, is_causal: bool, scale: float
) -> Weighed:
    """Return attention in bfloat16 by products of matrices alone; shapes as in `dense`.

    Far below zero sigmoid is exp, and oneDNN takes it of a product before it rounds. So one product
    gives the weights exp(score − shift). Rows whose shift was guessed too low are left to a kernel.
    """
    torch = import_torch()
    tokens, (groups, keys) = query.shape[2], key.shape[1:3]
    out, weight = torch.empty_like(query), query.new_empty(query.shape[:-1], dtype=torch.float32)
    lead, outs, weights = (  # batch × groups × tokens × heads of a group
        it.unflatten(1, (groups, -1)).transpose(2, 3) for it in (query, out, weight)
    )
    heads = lead.shape[3]
    scaled = lead.float() * scale
    if is_causal:  # every row sees its own key, and the first, which many models look at most
        some = torch.stack([key, key[:, :, :1].expand_as(key)], dim=3)
        near = (scaled @ some.float().transpose(-1, -2)).amax(dim=-1)
    else:
        some = key[:, :, :: -(-keys // SOME)].float().transpose(-1, -2)
        near = (scaled.flatten(2, 3) @ some).amax(dim=-1).unflatten(2, (-1, heads))
    shifts = _in_two(near + ABOVE, key.dtype)
    # A scale that is a power of two rounds nothing.
    parts = _in_two(scaled, key.dtype)[: 1 if frexp(scale)[0] == 0.5 else 2]
    left = torch.cat([*parts, *(-shift.unsqueeze(-1) for shift in shifts)], dim=-1)
    step = max(min(BLOCK, WEIGHTS // keys) // heads // STEP, 1) * STEP
    linear = torch.ops.mkldnn._linear_pointwise
    for k, group, start in product(range(len(key)), range(groups), range(0, tokens, step)):
        if start == 0:
            right = torch.cat([*[key[k, group]] * len(parts), key.new_ones(keys, 2)], dim=-1)
        stop = min(start + step, tokens)
        seen = slice(0, stop if is_causal else keys)
        rows = left[k, group, start:stop].flatten(0, 1)
        share = linear(rows, right[seen], None, "sigmoid", [], "")
        if is_causal:
            share.unflatten(0, (-1, heads)).transpose(0, 1)[..., start:].tril_()
        rounded = share @ value[k, group, seen]
        rest = torch.addmm(rounded, share, value[k, group, seen], beta=-1)  # what rounding took
        total = share.sum(dim=-1, keepdim=True, dtype=torch.float32)
        outs[k, group, start:stop] = ((rounded.float() + rest) / total).unflatten(0, (-1, heads))
        weights[k, group, start:stop] = total.unflatten(0, (-1, heads)).squeeze(-1)
    weight.log_()
    exact = (weight > REACH[0]) & (weight < REACH[1])
    weight += (shifts[0].float() + shifts[1]).transpose(2, 3).flatten(1, 2)
    if exact.all():
        return out, weight
    kernel = (causal if is_causal else dense)(query, key, value, scale, products=False)
    return torch.where(exact.unsqueeze(-1), out, kernel[0]), torch.where(exact, weight, kernel[1])


def _in_two(exact: Tensor, dtype: torch.dtype) -> list[Tensor]:
    high = exact.to(dtype)
    return [high, (exact - high).to(dtype)]


def _kernel(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, is_causal: bool, scale: float
) -> Weighed:
    torch = import_torch()
    same = query.shape[-1] == value.shape[-1]
    if query.device.type == "cpu" and same:
        flash = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
        out, weight = flash(query, key, value, 0.0, is_causal, scale=scale)
        return out, weight
    half, width = query.dtype != torch.float32, query.shape[-1]
    if query.device.type != "cuda" or not same or width % (HALVES if half else FLOATS):
        return written_out(query, key, value, is_causal, scale)
    if half and width <= WIDEST and torch.cuda.get_device_capability(query.device) >= AMPERE:
        flash = torch.ops.aten._scaled_dot_product_flash_attention
        out, weight = flash(query, key, value, 0.0, is_causal, scale=scale)[:2]
    else:
        # Its products are of float32's own precision, whatever is said of TF32.
        efficient = torch.ops.aten._scaled_dot_product_efficient_attention
        out, weight = efficient(query, key, value, None, True, 0.0, is_causal, scale=scale)[:2]
        weight = weight[..., : query.shape[-2]]  # which come in full blocks of rows
    return out, weight


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
        run = np.arange(base + start, base + stop)
        path = [(end, rows) for end, rows in path if end > start]
        parts += [*(rows for _, rows in path), run]
        ends.append(ends[-1] + sum(len(rows) for _, rows in path) + len(run))
        path.append((under, run[:0] if k in apart else run))
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
    try:
        flat = torch.cat([it.reshape(-1) for it in tensors]).to("cpu", non_blocking=True)
    except torch.OutOfMemoryError:  # there is no room for them side by side
        return lambda: [it.cpu() for it in tensors]
    done, shapes = torch.cuda.Event(), [it.shape for it in tensors]
    done.record(torch.cuda.current_stream(tensors[0].device))  # which need not be the current card

    def arrived() -> list[Tensor]:
        done.synchronize()
        return [it.view(shape) for it, shape in zip(flat.split(sizes), shapes, strict=True)]

    return arrived
