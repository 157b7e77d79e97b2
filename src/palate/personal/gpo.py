"""Group preference optimisation: a transformer that learns a user's taste in context.

Zhao, Dang and Grover, ICLR 2024: a neural process over choices, on frozen vectors. Every choice
gives two context tokens, one per order of the pair, of label 1 and 0; beside them stands a learnt
token for nothing, so that no choices are defined, too. Context tokens attend to one another under
an explicit mask, learnt slots attend to them, and a response attends to the slots only: so scores
of a slate do not depend on one another, and a user's state has one size however many choices.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from palate.errors import UsageError
from palate.models import import_torch
from palate.personal.amortised import Amortised
from palate.personal.episodes import Padded
from palate.personal.layers import (
    Arrays,
    attend,
    attention_arrays,
    linear,
    linear_arrays,
    mlp,
    mlp_arrays,
    norm,
    norm_arrays,
)

if TYPE_CHECKING:
    import torch

READS = 2
"""Layers in which a response reads the slots."""


class GPO(Amortised):
    """score = w·φ + r(φ | context); the state is the slots (slots × hidden)."""

    method: ClassVar[str] = "gpo"
    paper: ClassVar[str] = "Zhao, Dang and Grover 2024"
    state: ClassVar[str] = "slots"
    defaults: ClassVar[Mapping[str, Any]] = {
        "slots": 8, "hidden": 64, "heads": 4, "layers": 2, "steps": 2000, "batch": 32,
        "rate": 0.001, "decay": 0.01, "most": 256, "ridge": None,
    }  # fmt: skip

    @classmethod
    def arrays(cls, width: int, options: Mapping[str, Any], stream: np.random.Generator) -> Arrays:
        """Return first parameters: tokens, context layers, slots, target layers."""
        hidden, heads = options["hidden"], options["heads"]
        if hidden % heads:
            raise UsageError(f"gpo: hidden={hidden} is no multiple of heads={heads}")
        found = {
            **mlp_arrays(stream, "choice", [2 * width + 1, hidden, hidden]),
            **mlp_arrays(stream, "response", [width, hidden, hidden]),
            "nothing": stream.standard_normal((1, 1, hidden)).astype(np.float32),
            "slots": stream.standard_normal((1, options["slots"], hidden)).astype(np.float32),
            **norm_arrays("last", hidden),
            **linear_arrays(stream, "reward", hidden, 1, gain=0.0),
        }
        names = [f"context.{k}" for k in range(options["layers"])]
        for name in [*names, "pool", *(f"target.{k}" for k in range(READS))]:
            found |= _block_arrays(stream, name, hidden)
        return found

    def encode(self, context: Padded) -> torch.Tensor:
        """Return the slots after they have read the context (u × slots × hidden)."""
        torch = import_torch()
        apart, middle = self.pairs(context)
        label = torch.ones_like(apart[..., :1])
        won = torch.cat([apart, middle, label], dim=-1)
        lost = torch.cat([-apart, middle, 0 * label], dim=-1)
        users = len(apart)
        tokens = mlp(self.parts, "choice", torch.cat([won, lost], dim=1))
        tokens = torch.cat([self.parts["nothing"].expand(users, -1, -1), tokens], dim=1)
        there = torch.ones(users, 1, dtype=torch.bool)
        seen = torch.cat([there, context.mask, context.mask], dim=1)
        for k in range(self.options["layers"]):
            tokens = self._block(f"context.{k}", tokens, tokens, seen)
        return self._block("pool", self.parts["slots"].expand(users, -1, -1), tokens, seen)

    def sample(self, context: Padded, noise: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the slots; nothing is drawn and nothing penalised."""
        del noise
        return self.encode(context), import_torch().zeros(len(context.mask))

    def reward(self, state: torch.Tensor, responses: torch.Tensor) -> torch.Tensor:
        """Return r(φ | context)."""
        tokens = mlp(self.parts, "response", responses / self.size)
        for k in range(READS):
            tokens = self._block(f"target.{k}", tokens, state, None)
        return linear(self.parts, "reward", norm(self.parts, "last", tokens))[..., 0]

    def _block(
        self, name: str, queries: torch.Tensor, keys: torch.Tensor, mask: torch.Tensor | None
    ) -> torch.Tensor:
        p = self.parts
        asked, read = norm(p, f"{name}.asked", queries), norm(p, f"{name}.read", keys)
        x = queries + attend(p, f"{name}.attention", asked, read, mask, self.options["heads"])
        return x + mlp(p, f"{name}.mlp", norm(p, f"{name}.between", x))


def _block_arrays(stream: np.random.Generator, name: str, hidden: int) -> Arrays:
    return {
        **norm_arrays(f"{name}.asked", hidden),
        **norm_arrays(f"{name}.read", hidden),
        **norm_arrays(f"{name}.between", hidden),
        **attention_arrays(stream, f"{name}.attention", hidden),
        **mlp_arrays(stream, f"{name}.mlp", [hidden, hidden, hidden]),
    }
