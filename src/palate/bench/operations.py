"""Floating-point operations of a decoder, counted from its shapes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

from palate.bench.work import BenchWork
from palate.engines import LocalModel
from palate.engines.local.tree import Node, build_tree

MATMUL, TURNS = {"cpu": 2048, "accelerator": 16_384}, 5


class Costs(NamedTuple):
    """Operations per token, per row of logits, and per (query, key) pair of all layers."""

    token: float
    logits: float
    attention: float


def costs_of(local: LocalModel) -> Costs:
    """Count two operations per weight that multiplies, and four per head width and key."""
    config = local.model.config.get_text_config()
    linear = local.torch.nn.Linear
    base = sum(m.weight.numel() for m in local.model.base_model.modules() if isinstance(m, linear))
    heads = config.num_attention_heads
    width = getattr(config, "head_dim", None) or config.hidden_size // heads
    head = local.model.get_output_embeddings().weight.numel()
    return Costs(2.0 * base, 2.0 * head, 4.0 * config.num_hidden_layers * heads * width)


def matmul_rate(local: LocalModel) -> float:
    """Measure operations per second of one large product of matrices: the device's own roof."""
    torch, n = local.torch, MATMUL["cpu" if local.device == "cpu" else "accelerator"]
    a, b = (torch.randn(n, n, device=local.device, dtype=local.dtype) for _ in range(2))
    best = float("inf")
    for _ in range(TURNS):
        started = time.perf_counter()
        float((a @ b)[0, 0])  # waits for an accelerator
        best = min(best, time.perf_counter() - started)
    return 2.0 * n**3 / best


def dense_operations(costs: Costs, length: int, logits: int = 0) -> float:
    """Count a causal forward over one sequence; token t attends to t + 1 keys."""
    keys = length * (length + 1) / 2
    return length * costs.token + logits * costs.logits + keys * costs.attention


def tree_operations(costs: Costs, work: BenchWork) -> float:
    """Count what the tree of each slate needs: every token once, with all keys before it."""
    total = sum(len(ids) - start for ids, start in work.rows) * costs.logits
    for slate in work.slates:
        for offset, n in _runs(build_tree(slate)):
            keys = n * offset + n * (n + 1) / 2
            total += n * costs.token + keys * costs.attention
    return total


def tree_tokens(work: BenchWork) -> int:
    """Return how many tokens the slates' trees hold."""
    return sum(n for slate in work.slates for _, n in _runs(build_tree(slate)))


def _runs(nodes: Sequence[Node]) -> list[tuple[int, int]]:
    found = [(node.offset, len(node.tokens)) for node in nodes]
    return found + [run for node in nodes for run in _runs(node.children)]
