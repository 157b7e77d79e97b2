"""Laws of the next token under a guide: a fusion of log-probabilities, or rated candidates.

Fusion: s(v) = c_p log p(v) + c_g g(v), π = softmax(s / T) on a keep-set K; p is the policy, and the
guide's reward g(v) a sum of log-probabilities, of one model or of a model less its reference. This
is not the policy tilted by exp(Σ g): the normaliser depends on what was written before.

Candidates: s(v) = log p(v) + w r(prefix v) on the policy's top k, π = softmax(s / T), or its argmax
(ARGS, arXiv 2402.01694). With the exact soft value log E_p[e^R | prefix v] for w r and all tokens
it is the policy tilted by e^R; with other rewards it is not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from palate.errors import UsageError
from palate.models import import_torch

if TYPE_CHECKING:
    from torch import Tensor

SUMS_TO_0 = 1e-9
K = 10
"""Candidates by default."""


class TokenFilter(NamedTuple):
    """Which tokens may follow: all, or by the probabilities of policy or guide."""

    how: Literal["all", "top-k", "top-p", "share"] = "all"
    number: float = 1.0
    """k; the probability that is held; the least share of the likeliest token's."""
    of: Literal["policy", "guide"] = "policy"

    def __str__(self) -> str:
        return "all" if self.how == "all" else f"{self.how} {self.number:g} of the {self.of}"

    def mask(self, logp: Tensor) -> Tensor | None:
        """Return True where a token stays (rows × vocabulary); None where all do."""
        mask: Tensor
        if self.how == "all":
            return None
        torch = import_torch()
        if self.how == "share":
            mask = logp >= logp.amax(dim=-1, keepdim=True) + math.log(self.number)
        elif self.how == "top-k":
            best = logp.topk(min(int(self.number), logp.shape[-1]), dim=-1).indices
            mask = torch.zeros_like(logp, dtype=torch.bool).scatter(-1, best, True)
        else:
            falling, order = logp.softmax(dim=-1).sort(dim=-1, descending=True, stable=True)
            inside = falling.cumsum(dim=-1) - falling < self.number
            mask = torch.zeros_like(inside).scatter(-1, order, inside)
        return mask


def weighted(coefficients: Sequence[float], parts: Sequence[Tensor]) -> Tensor:
    """Return Σ c_j x_j; −∞ where any part is, whatever its sign."""
    summed = None
    for coefficient, part in zip(coefficients, parts, strict=True):
        if coefficient:
            term = part if coefficient == 1 else coefficient * part
            summed = term if summed is None else summed + term
    if summed is None:
        return parts[0].new_zeros(parts[0].shape)
    if min(coefficients) < 0:
        for part in (part for c, part in zip(coefficients, parts, strict=True) if c):
            summed = summed.masked_fill(part == -math.inf, -math.inf)
    return summed


class Fusion(NamedTuple):
    """The law of one weight."""

    policy: float
    """c_p."""
    guide: float
    """c_g."""
    keep: TokenFilter = TokenFilter()

    def mask(self, policy: Tensor, guide: Tensor) -> Tensor | None:
        """Return True where a token may follow (rows × vocabulary); None where all may."""
        return self.keep.mask(policy if self.keep.of == "policy" else guide)

    def logits(self, policy: Tensor, guide: Tensor, also: Tensor | None = None) -> Tensor:
        """Return s (rows × vocabulary); −∞ outside the keep-set, or what a member rules out.

        `policy` are log-probabilities, `guide` rewards. `also` (rows) are tokens kept in any case.
        A weight of 0 leaves a member out, whatever it says.
        """
        mask = self.mask(policy, guide)
        summed = weighted((self.policy, self.guide), (policy, guide))
        out = ~policy.isfinite()
        if self.guide:
            out |= ~guide.isfinite()
        if mask is not None:
            out |= ~(mask if also is None else mask.scatter(-1, also[..., None], True))
        return summed.masked_fill(out, -math.inf)


class Preset(NamedTuple):
    """A published method as a fusion."""

    policy: Callable[[float], float]
    guide: Callable[[float], float]
    keep: TokenFilter
    weight: float
    """The weight its authors use, or 1."""
    guide_is: Literal["model", "difference", "either"]
    """One model's log-probabilities, or a model's less its reference's."""
    source: str

    def check(self, name: str, coefficients: Sequence[float], spec: str) -> None:
        """Raise `UsageError` unless a guide of these coefficients is of the kind it is for."""
        model, difference = len(coefficients) == 1, abs(sum(coefficients)) <= SUMS_TO_0
        if self.guide_is == "model" and not model:
            raise UsageError(
                f"method {name}: {spec} is a difference of models; this method is guided by one "
                "model's log-probabilities, such as autoregressive or likelihood"
            )
        if self.guide_is == "difference" and not difference:
            raise UsageError(
                f"method {name}: {spec} is no difference of two models; this method is guided by "
                "a model less its reference, such as implicit or lift"
            )
        if self.keep.of == "guide" and tuple(coefficients) != (1.0,):
            raise UsageError(
                f"method {name}: which tokens stay is told by {spec}'s probabilities, so it "
                "cannot be scaled; leave out ?beta"
            )
        if not (model or difference):
            raise UsageError(f"method {name}: the terms of {spec} do not sum to 0")

    def law(self, weight: float, keep: TokenFilter | None = None) -> Fusion:
        """Return the law at a weight; raises `UsageError` for one that is no number."""
        if math.isnan(weight) or math.isinf(weight):
            raise UsageError(f"weight {weight:g}: expected a finite number")
        return Fusion(self.policy(weight), self.guide(weight), self.keep if keep is None else keep)


def amulet_shift(
    iterations: int = 60, eta: float = 10.0, alpha: float = 2.0, strength: float = 2.0
) -> float:
    """Return the ρ that Amulet's iteration comes to: its logits are linear alignment's.

    a_1 = 1, a_{t+1} = (λ + (α/t) Σ_{s≤t} a_s + a_t/(ηt)) / (λ + 1/(ηt)), ρ = a_last − 1.

    >>> round(amulet_shift(), 3)
    4.649
    """
    a = [1.0]
    for t in range(1, iterations + 1):
        pull = 1 / (eta * t)
        a.append((strength + alpha / t * sum(a) + pull * a[-1]) / (strength + pull))
    return a[-1] - 1


ALL, TOP_10 = TokenFilter(), TokenFilter("top-k", 10)
PRESETS = {
    "genarm": Preset(lambda w: 1.0, lambda w: w, ALL, 1.0, "either", "GenARM, arXiv 2410.08193"),
    "pad": Preset(
        lambda w: 1.0 - w, lambda w: w, TOP_10, 1.0, "model", "PAD, arXiv 2410.04070, as released"
    ),
    "pad-reference": Preset(
        lambda w: 1.0, lambda w: w, TOP_10, 1.0, "difference", "PAD, its equation"
    ),
    "proxy": Preset(
        lambda w: 1.0, lambda w: w, ALL, 1.0, "difference", "proxy tuning, arXiv 2401.08565"
    ),
    "linear-alignment": Preset(
        lambda w: -w,
        lambda w: 1.0 + w,
        TokenFilter("top-p", 0.8, "guide"),
        2.0,
        "model",
        "linear alignment, arXiv 2401.11458; the guide is the policy shown more",
    ),
    "amulet": Preset(
        lambda w: -w,
        lambda w: 1.0 + w,
        ALL,
        amulet_shift(),
        "model",
        "Amulet, arXiv 2502.19148; the guide is the policy shown more",
    ),
    "cope": Preset(
        lambda w: -w,
        lambda w: 1.0,
        TokenFilter("share", 0.1, "guide"),
        0.1,
        "model",
        "CoPe, EMNLP 2025; the guide is the personal policy",
    ),
    "mod": Preset(
        lambda w: 1.0 - w, lambda w: w, ALL, 0.5, "model", "MOD, arXiv 2406.18853, reverse KL"
    ),
    "drift": Preset(lambda w: 1.0, lambda w: w, ALL, 1.0, "difference", "Drift, arXiv 2502.14289"),
    "farma": Preset(lambda w: 1.0, lambda w: w, TOP_10, 1.0, "model", "FaRMA, arXiv 2502.04517"),
}
"""The coefficients of policy and guide from the weight, by the method's name."""
TOKEN_METHODS = (*PRESETS, "args")
"""What guides token by token, with a weight."""


def args_preset(k: int) -> Preset:
    """Return candidates rated by single tokens: prefixes then differ by their last token alone."""
    source = "ARGS, arXiv 2402.01694, with rewards of tokens"
    return PRESETS["genarm"]._replace(keep=TokenFilter("top-k", k), source=source)


class Candidates(NamedTuple):
    """The law of one weight and one k."""

    weight: float
    k: int = K

    def check(self) -> None:
        """Raise `UsageError` for a k or a weight that means nothing."""
        if self.k < 1:
            raise UsageError(f"k={self.k}: expected 1 candidate or more")
        if not 0 <= self.weight < float("inf"):
            raise UsageError(f"weight {self.weight:g}: expected 0 or more, and finite")

    def tokens(self, policy: Tensor, also: Tensor | None = None) -> Tensor:
        """Return the candidates of each row (rows × k), likeliest first.

        `also` (rows) are tokens that come last where they are not among the k likeliest.
        """
        torch = import_torch()
        best = policy.topk(min(self.k, policy.shape[-1]), dim=-1).indices
        if also is None:
            return best
        missed = ~(best == also[:, None]).any(dim=-1)
        if not missed.any():
            return best
        # A row that misses nothing repeats its last candidate, which `logits` leaves out.
        last = torch.where(missed, also, best[:, -1])
        joined: Tensor = torch.cat([best, last[:, None]], dim=-1)
        return joined

    def logits(self, policy: Tensor, tokens: Tensor, rewards: Tensor) -> Tensor:
        """Return s at the candidates (rows × k); a candidate that is there twice counts once."""
        at = policy.gather(-1, tokens)
        summed = at
        if self.weight:  # whatever the reward says of what is no token
            summed = (at + self.weight * rewards).masked_fill(at == float("-inf"), float("-inf"))
        again = tokens[:, -1:] == tokens[:, :-1]
        if not again.any():
            return summed
        summed = summed.clone()
        summed[:, -1] = summed[:, -1].masked_fill(again.any(dim=-1), float("-inf"))
        return summed
