"""Group preference optimisation: a transformer that learns a user's taste in context.

Zhao, Dang and Grover, ICLR 2024: a neural process over choices, on frozen vectors. The context
holds each pair in both orders, under the labels 1 and 0; the two make one token by maps of their
own. A learnt token for nothing stands beside them, so that no choices are defined, too. Context
tokens attend to one another under an explicit mask, learnt slots attend to them, and a response
attends to the slots only: scores of a slate do not depend on one another, and a user's state has
one size however many choices there are.

A response reads the slots twice: by attention, and by a product with a weight vector made of them
(attention without a softmax), which follows a straight taste from few examples. A reward per
response makes the log-odds of a pair odd under exchange, and slates consistent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from palate.errors import UsageError
from palate.learning.methods.amortised import Amortised
from palate.learning.methods.episodes import Padded
from palate.learning.personal.protocol import Options
from palate.learning.solvers.layers import (
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
from palate.models import import_torch

if TYPE_CHECKING:
    import torch


class GPO(Amortised):
    """A network that reads past choices beside each answer (GPO).

    score = w·φ + r(φ | context); the state is the slots (slots × hidden).
    """

    method: ClassVar[str] = "gpo"
    paper: ClassVar[str] = "Zhao, Dang and Grover 2024"
    state: ClassVar[str] = "slots"
    defaults: ClassVar[Options] = {
        "slots": 8,
        "hidden": 32,
        "heads": 4,
        "layers": 2,
        "steps": 1000,
        "batch": 32,
        "rate": 0.002,
        "decay": 0.01,
        "most": 256,
        "ridge": None,
    }

    @classmethod
    def arrays(cls, width: int, options: Options, stream: np.random.Generator) -> Arrays:
        """Return first parameters: tokens, context layers, slots, target layers."""
        hidden, heads = options["hidden"], options["heads"]
        if hidden % heads:
            raise UsageError(f"gpo: hidden={hidden} is no multiple of heads={heads}")
        slots = options["slots"]
        arrays = {
            **mlp_arrays(stream, "choice", [2 * width, hidden, hidden]),
            **linear_arrays(stream, "won", hidden, hidden),
            **linear_arrays(stream, "lost", hidden, hidden),
            **linear_arrays(stream, "straight", width, hidden),
            **mlp_arrays(stream, "response", [width, hidden, hidden]),
            "nothing": stream.standard_normal((1, 1, hidden)).astype(np.float32),
            "slots": stream.standard_normal((1, slots, hidden)).astype(np.float32),
            **norm_arrays("taste", hidden),
            **linear_arrays(stream, "taste", slots * hidden, hidden, gain=0.0),
            **norm_arrays("last", hidden),
            **linear_arrays(stream, "reward", hidden, 1, gain=0.0),
        }
        for name in [*(f"context.{k}" for k in range(options["layers"])), "pool", "target"]:
            arrays |= _block_arrays(stream, name, hidden)
        return arrays

    def encode(self, context: Padded) -> torch.Tensor:
        """Return the slots after they have read the context (u × slots × hidden)."""
        torch, p = import_torch(), self.parts
        apart, middle = self.pairs(context)
        won, lost = (
            linear(p, name, mlp(p, "choice", torch.cat([sign * apart, middle], dim=-1)))
            for name, sign in (("won", 1), ("lost", -1))
        )
        users = len(apart)
        tokens = torch.cat([p["nothing"].expand(users, -1, -1), won + lost], dim=1)
        there = torch.ones(users, 1, dtype=torch.bool)
        seen = torch.cat([there, context.mask], dim=1)
        for k in range(self.options["layers"]):
            tokens = self._block(f"context.{k}", tokens, tokens, seen)
        return self._block("pool", p["slots"].expand(users, -1, -1), tokens, seen)

    def sample(self, context: Padded, noise: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the slots; nothing is drawn and nothing penalised."""
        del noise
        return self.encode(context), import_torch().zeros(len(context.mask))

    def reward(self, state: torch.Tensor, responses: torch.Tensor) -> torch.Tensor:
        """Return r(φ | context)."""
        p, shown = self.parts, responses / self.size
        tokens = linear(p, "straight", shown) + mlp(p, "response", shown)
        taste = linear(p, "taste", norm(p, "taste", state).flatten(1))
        read = norm(p, "last", self._block("target", tokens, state, None))
        return linear(p, "reward", read)[..., 0] + (tokens * taste[:, None]).sum(dim=-1)

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
