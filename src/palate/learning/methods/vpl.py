"""Variational preference learning: a latent taste z, inferred from the user's choices in one pass.

Poddar et al., NeurIPS 2024, on frozen vectors. P(a over b | z) = σ(w·D + r(φ(a); z) − r(φ(b); z)),
z ~ N(0, I); loss = −log P of the user's other choices + β KL(q(z | choices) ‖ N(0, I)).

Three departures. (1) q is a product of experts: after self-attention each choice j gives a mean m_j
and a precision a_j, so q has precision 1 + Σ a_j and mean Σ a_j m_j / (1 + Σ a_j) per number. No
choices leave the prior, and few move z little. (2) z = mean + noise in training and z = mean
afterwards, rescaled in neither: the released code brings z to length √512 in training only, so its
decoder meets lengths it was never taught. (3) The decoder has a bilinear part z'Bφ beside the MLP.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

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
)
from palate.models import import_torch

if TYPE_CHECKING:
    import torch


class VPL(Amortised):
    """A network that reads a taste from past choices (VPL).

    score = w·φ + z'Bφ + MLP([φ; z]); the state is z, the posterior's mean.
    """

    method: ClassVar[str] = "vpl"
    paper: ClassVar[str] = "Poddar et al. 2024"
    state: ClassVar[str] = "z"
    defaults: ClassVar[Options] = {
        "latent": 16,
        "hidden": 64,
        "kl": 0.001,
        "steps": 1500,
        "batch": 32,
        "rate": 0.002,
        "decay": 0.01,
        "most": 256,
        "ridge": None,
    }

    @classmethod
    def arrays(cls, width: int, options: Options, stream: np.random.Generator) -> Arrays:
        """Return first parameters: pair encoder, attention, experts, decoder."""
        hidden, latent = options["hidden"], options["latent"]
        return {
            **mlp_arrays(stream, "pair", [2 * width, hidden, hidden, hidden]),
            **attention_arrays(stream, "attention", hidden),
            **linear_arrays(stream, "expert", hidden, 2 * latent),
            **mlp_arrays(stream, "decoder", [width + latent, hidden, hidden, 1], last=0.0),
            **linear_arrays(stream, "bilinear", width, latent, gain=0.0),
        }

    def encode(self, context: Padded) -> torch.Tensor:
        """Return the posterior means (u × latent)."""
        return self.posterior(context)[0]

    def sample(self, context: Padded, noise: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
        """Return z drawn from the posterior, and β KL."""
        torch = import_torch()
        mean, precision = self.posterior(context)
        drawn = torch.randn(mean.shape, generator=noise) / precision.sqrt()
        apart = 1 / precision + mean**2 - 1 + precision.log()
        return mean + drawn, 0.5 * self.options["kl"] * apart.sum(dim=1)

    def reward(self, state: torch.Tensor, responses: torch.Tensor) -> torch.Tensor:
        """Return r(φ; z)."""
        torch = import_torch()
        shown = responses / self.size
        z = state[:, None].expand(-1, responses.shape[1], -1)
        bent = mlp(self.parts, "decoder", torch.cat([shown, z], dim=-1))[..., 0]
        return bent + (linear(self.parts, "bilinear", shown) * z).sum(dim=-1)

    def posterior(self, context: Padded) -> tuple[torch.Tensor, torch.Tensor]:
        """Return mean and precision of q(z | choices) (u × latent each)."""
        torch = import_torch()
        codes = mlp(self.parts, "pair", torch.cat(self.pairs(context), dim=-1))
        # A user without choices attends to padding, and the sums below leave it all out.
        seen = context.mask | ~context.mask.any(dim=1, keepdim=True)
        codes = codes + attend(self.parts, "attention", codes, codes, seen, heads=1)
        means, raw = linear(self.parts, "expert", codes).chunk(2, dim=-1)
        weights = torch.nn.functional.softplus(raw) * context.mask[..., None]
        precision = 1 + weights.sum(dim=1)
        return (weights * means).sum(dim=1) / precision, precision
