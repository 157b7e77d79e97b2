"""Attention of many runs by the definition: what a card's kernel computes, on the processor."""

from __future__ import annotations

import torch


def emulated(query, key, value, gather, scale):
    """Return what `ManyRuns` does, run by run in float32, its causal mask at the last key."""
    outs, weights = [], []
    runs, keys = gather.run_ends.tolist(), gather.key_ends.tolist()
    for run, start, last in zip(range(len(runs) - 1), keys, keys[1:], strict=False):
        mine = slice(runs[run], runs[run + 1])
        some = query[mine].transpose(0, 1).float()
        groups = query.shape[1] // key.shape[1]
        seen, held = (
            it[start:last].transpose(0, 1).repeat_interleave(groups, dim=0).float()
            for it in (key, value)
        )
        rows, columns = some.shape[1], seen.shape[1]
        scores = some @ seen.transpose(-1, -2) * scale
        later = torch.ones(rows, columns, dtype=torch.bool).triu(columns - rows + 1)
        scores = scores.masked_fill(later, float("-inf"))
        weights.append(torch.logsumexp(scores, dim=-1))
        outs.append((torch.softmax(scores, dim=-1) @ held).transpose(0, 1))
    return torch.cat(outs).to(query.dtype), torch.cat(weights, dim=-1)
