"""Networks that read a user's choices in one pass: VPL and GPO, on frozen vectors.

A layer is a function of a flat dictionary of named arrays and its own name. So what is learnt is
saved as it stands, and every first value comes from a seeded stream, none from torch's global one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from palate.errors import UsageError
from palate.learning.amortised import EPISODES, Amortised, Arrays, Padded, Parameters
from palate.learning.personal import Options
from palate.models import import_torch

if TYPE_CHECKING:
    import torch
    from torch import Tensor


class VPL(Amortised):
    """A network that reads a taste from past choices (VPL).

    score = w·φ + z'Bφ + MLP([φ; z]); the state is z, the posterior's mean.

    Poddar et al., NeurIPS 2024, on frozen vectors. P(a over b | z) = σ(w·D + r(φ(a); z) − r(φ(b);
    z)), z ~ N(0, I); loss = −log P of the user's other choices + β KL(q(z | choices) ‖ N(0, I)).

    Three departures. (1) q is a product of experts: after self-attention each choice j gives a mean
    m_j and a precision a_j, so q has precision 1 + Σ a_j and mean Σ a_j m_j / (1 + Σ a_j) per
    number. No choices leave the prior, and few move z little. (2) z = mean + noise in training and
    z = mean afterwards, rescaled in neither: the released code brings z to length √512 in training
    only, so its decoder meets lengths it was never taught. (3) The decoder has a bilinear part z'Bφ
    beside the MLP.
    """

    method: ClassVar[str] = "vpl"
    paper: ClassVar[str] = "Poddar et al. 2024"
    state: ClassVar[str] = "z"
    defaults: ClassVar[Options] = {
        "latent": 16,
        "hidden": 64,
        "kl": 0.001,
        "steps": 1500,
        **EPISODES,
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

    def encode(self, context: Padded) -> Tensor:
        """Return the posterior means (u × latent)."""
        return self.posterior(context)[0]

    def sample(self, context: Padded, noise: torch.Generator) -> tuple[Tensor, Tensor]:
        """Return z drawn from the posterior, and β KL."""
        torch = import_torch()
        mean, precision = self.posterior(context)
        drawn = torch.randn(mean.shape, generator=noise) / precision.sqrt()
        apart = 1 / precision + mean**2 - 1 + precision.log()
        return mean + drawn, 0.5 * self.options["kl"] * apart.sum(dim=1)

    def reward(self, state: Tensor, responses: Tensor) -> Tensor:
        """Return r(φ; z)."""
        torch = import_torch()
        shown = responses / self.size
        z = state[:, None].expand(-1, responses.shape[1], -1)
        bent = mlp(self.parts, "decoder", torch.cat([shown, z], dim=-1))[..., 0]
        return bent + (linear(self.parts, "bilinear", shown) * z).sum(dim=-1)

    def posterior(self, context: Padded) -> tuple[Tensor, Tensor]:
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


class GPO(Amortised):
    """A network that reads past choices beside each answer (GPO).

    score = w·φ + r(φ | context); the state is the slots (slots × hidden).

    Zhao, Dang and Grover, ICLR 2024: a neural process over choices, on frozen vectors. The context
    holds each pair in both orders, under the labels 1 and 0; the two make one token by maps of
    their own. A learnt token for nothing stands beside them, so that no choices are defined, too.
    Context tokens attend to one another under an explicit mask, learnt slots attend to them, and a
    response attends to the slots only: scores of a slate do not depend on one another, and a user's
    state has one size however many choices there are.

    A response reads the slots twice: by attention, and by a product with a weight vector made of
    them (attention without a softmax), which follows a straight taste from few examples. A reward
    per response makes the log-odds of a pair odd under exchange, and slates consistent.
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
        **EPISODES,
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
            for part in ("asked", "read", "between"):
                arrays |= norm_arrays(f"{name}.{part}", hidden)
            arrays |= attention_arrays(stream, f"{name}.attention", hidden)
            arrays |= mlp_arrays(stream, f"{name}.mlp", [hidden, hidden, hidden])
        return arrays

    def encode(self, context: Padded) -> Tensor:
        """Return the slots after they have read the context (u × slots × hidden)."""
        torch, p = import_torch(), self.parts
        apart, middle = self.pairs(context)
        won, lost = (
            linear(p, name, mlp(p, "choice", torch.cat([sign * apart, middle], dim=-1)))
            for name, sign in (("won", 1), ("lost", -1))
        )
        users = len(apart)
        tokens = torch.cat([p["nothing"].expand(users, -1, -1), won + lost], dim=1)
        always = torch.ones(users, 1, dtype=torch.bool)
        seen = torch.cat([always, context.mask], dim=1)
        for k in range(self.options["layers"]):
            tokens = self._block(f"context.{k}", tokens, tokens, seen)
        return self._block("pool", p["slots"].expand(users, -1, -1), tokens, seen)

    def sample(self, context: Padded, noise: torch.Generator) -> tuple[Tensor, Tensor]:
        """Return the slots; nothing is drawn and nothing penalised."""
        return self.encode(context), import_torch().zeros(len(context.mask))

    def reward(self, state: Tensor, responses: Tensor) -> Tensor:
        """Return r(φ | context)."""
        p, shown = self.parts, responses / self.size
        tokens = linear(p, "straight", shown) + mlp(p, "response", shown)
        taste = linear(p, "taste", norm(p, "taste", state).flatten(1))
        read = norm(p, "last", self._block("target", tokens, state, None))
        return linear(p, "reward", read)[..., 0] + (tokens * taste[:, None]).sum(dim=-1)

    def _block(self, name: str, queries: Tensor, keys: Tensor, mask: Tensor | None) -> Tensor:
        p = self.parts
        asked, read = norm(p, f"{name}.asked", queries), norm(p, f"{name}.read", keys)
        x = queries + attend(p, f"{name}.attention", asked, read, mask, self.options["heads"])
        return x + mlp(p, f"{name}.mlp", norm(p, f"{name}.between", x))


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
    arrays: Arrays = {}
    for k, (n_in, n_out) in enumerate(zip(widths, widths[1:], strict=False)):
        gain = last if k == len(widths) - 2 else np.sqrt(2.0)
        arrays |= linear_arrays(stream, f"{name}.{k}", n_in, n_out, gain)
    return arrays


def norm_arrays(name: str, width: int) -> Arrays:
    """Return the scale and shift of a layer norm."""
    return {f"{name}.scale": np.ones(width, "f4"), f"{name}.shift": np.zeros(width, "f4")}


def attention_arrays(stream: np.random.Generator, name: str, width: int) -> Arrays:
    """Return the four linear maps of an attention layer."""
    arrays: Arrays = {}
    for part in ("query", "key", "value", "out"):
        arrays |= linear_arrays(stream, f"{name}.{part}", width, width)
    return arrays


def linear(p: Parameters, name: str, x: Tensor) -> Tensor:
    """Return W x + b."""
    weight, bias = p[f"{name}.weight"], p[f"{name}.bias"]
    mapped: Tensor = import_torch().nn.functional.linear(x, weight, bias)
    return mapped


def mlp(p: Parameters, name: str, x: Tensor) -> Tensor:
    """Return the MLP of x, leaky rectifiers between its layers."""
    rectify = import_torch().nn.functional.leaky_relu
    depth = 0
    while f"{name}.{depth}.weight" in p:
        x = linear(p, f"{name}.{depth}", rectify(x, SLOPE) if depth else x)
        depth += 1
    return x


def norm(p: Parameters, name: str, x: Tensor) -> Tensor:
    """Return the layer norm of x."""
    scale, shift = p[f"{name}.scale"], p[f"{name}.shift"]
    normed: Tensor = import_torch().nn.functional.layer_norm(x, scale.shape, scale, shift)
    return normed


def attend(
    p: Parameters, name: str, queries: Tensor, keys: Tensor, mask: Tensor | None, heads: int
) -> Tensor:
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
    read = scores.softmax(dim=-1) @ value
    return linear(p, f"{name}.out", read.transpose(1, 2).flatten(2))
