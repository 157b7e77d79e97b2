"""Candidates: the policy's k likeliest next tokens, each with the reward of the prefix it makes.

s(v) = log p(v) + w r(prefix v) on the policy's top k, π = softmax(s / T), or its argmax (ARGS,
arXiv 2402.01694). With the exact soft value log E_p[e^R | prefix v] for w r and all tokens it is
the policy tilted by e^R; with other rewards it is not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from palate.errors import UsageError
from palate.models import import_torch

if TYPE_CHECKING:
    from torch import Tensor

K = 10


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
