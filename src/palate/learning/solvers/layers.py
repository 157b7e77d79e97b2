"""Layers of small networks whose parameters are one flat dictionary of named arrays.

A layer is a function of the dictionary and its own name. So what is learnt is saved as it stands,
and every first value comes from a seeded stream, none from torch's global one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from palate.models import import_torch

if TYPE_CHECKING:
    import torch

Arrays = dict[str, NDArray[np.float32]]
Parameters = dict[str, "torch.Tensor"]
SLOPE = 0.2
"""Of the leaky rectifier below 0, as in the code of Poddar et al."""


def linear_arrays(
    stream: np.random.Generator, name: str, n_in: int, n_out: int, gain: float = 1.0
) -> Arrays:
    """Return weights ~ N(0, gain² / n_in) (n_out × n_in) and a bias of 0.

    >>> linear_arrays(np.random.default_rng(0), "last", 2, 1, gain=0)["last.bias"]
    array([0.], dtype=float32)
    """
    weight = stream.standard_normal((n_out, n_in)) * gain / np.sqrt(n_in)
    return {f"{name}.weight": weight.astype(np.float32), f"{name}.bias": np.zeros(n_out, "f4")}


def mlp_arrays(
    stream: np.random.Generator, name: str, widths: Sequence[int], last: float = 1.0
) -> Arrays:
    """Return the layers of an MLP through these widths; `last` is the last one's gain."""
    found: Arrays = {}
    for k, (n_in, n_out) in enumerate(zip(widths, widths[1:], strict=False)):
        gain = last if k == len(widths) - 2 else np.sqrt(2.0)
        found |= linear_arrays(stream, f"{name}.{k}", n_in, n_out, gain)
    return found


def norm_arrays(name: str, width: int) -> Arrays:
    """Return the scale and shift of a layer norm."""
    return {f"{name}.scale": np.ones(width, "f4"), f"{name}.shift": np.zeros(width, "f4")}


def attention_arrays(stream: np.random.Generator, name: str, width: int) -> Arrays:
    """Return the four linear maps of an attention layer."""
    found: Arrays = {}
    for part in ("query", "key", "value", "out"):
        found |= linear_arrays(stream, f"{name}.{part}", width, width)
    return found


def linear(p: Parameters, name: str, x: torch.Tensor) -> torch.Tensor:
    """Return W x + b."""
    weight, bias = p[f"{name}.weight"], p[f"{name}.bias"]
    mapped: torch.Tensor = import_torch().nn.functional.linear(x, weight, bias)
    return mapped


def mlp(p: Parameters, name: str, x: torch.Tensor) -> torch.Tensor:
    """Return the MLP of x, leaky rectifiers between its layers."""
    rectify = import_torch().nn.functional.leaky_relu
    depth = 0
    while f"{name}.{depth}.weight" in p:
        x = linear(p, f"{name}.{depth}", rectify(x, SLOPE) if depth else x)
        depth += 1
    return x


def norm(p: Parameters, name: str, x: torch.Tensor) -> torch.Tensor:
    """Return the layer norm of x."""
    scale, shift = p[f"{name}.scale"], p[f"{name}.shift"]
    normed: torch.Tensor = import_torch().nn.functional.layer_norm(x, scale.shape, scale, shift)
    return normed


def attend(
    p: Parameters,
    name: str,
    queries: torch.Tensor,
    keys: torch.Tensor,
    mask: torch.Tensor | None,
    heads: int,
) -> torch.Tensor:
    """Return scaled dot-product attention of queries (u × q × h) to keys (u × m × h).

    `mask` (u × m) is True for keys that are there; a row of the mask must hold at least one.
    """
    query, key, value = (
        linear(p, f"{name}.{part}", x).unflatten(-1, (heads, -1)).transpose(1, 2)
        for part, x in (("query", queries), ("key", keys), ("value", keys))
    )
    # Written out: with heads this narrow the fused kernel takes twice as long on a CPU.
    scores = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5
    if mask is not None:
        scores = scores.masked_fill(~mask[:, None, None, :], float("-inf"))
    found = scores.softmax(dim=-1) @ value
    return linear(p, f"{name}.out", found.transpose(1, 2).flatten(2))
