"""Attention kernels that also give what two results over disjoint keys are merged by."""

from __future__ import annotations

from typing import TYPE_CHECKING

from palate.models import import_torch

if TYPE_CHECKING:
    import torch

ROWS = 512
"""Query rows at a time where attention is written out."""
FLOATS = 4
"""Numbers of 16 bytes in float32: a width must hold whole ones for CUDA's kernel."""
Weighed = tuple["torch.Tensor", "torch.Tensor"]
"""A result, and the log of each query's summed weights."""


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
