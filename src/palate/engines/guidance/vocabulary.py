"""Which ids are tokens: a head may be wider than its tokenizer, and a tokenizer may have holes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self

from palate.models import import_torch

if TYPE_CHECKING:
    from torch import Tensor


class TokenizedModel(Protocol):
    """A loaded model with its tokenizer."""

    @property
    def tokenizer(self) -> Any:
        """None where there is none."""

    @property
    def model(self) -> Any:
        """The transformers model."""

    @property
    def device(self) -> Any:
        """Where it is."""


class Vocabulary(NamedTuple):
    """The ids that a policy may write."""

    size: int
    """All tokens lie below."""
    blocked: Tensor | None
    """True at ids below that are no token; None where all are."""

    @classmethod
    def of(cls, policy: TokenizedModel) -> Self:
        """Return a policy's; without a tokenizer every id of the head is a token."""
        torch = import_torch()
        width = int(policy.model.config.get_text_config().vocab_size)
        if policy.tokenizer is None:
            return cls(width, None)
        ids = sorted(policy.tokenizer.get_vocab().values())
        size = min(ids[-1] + 1, width)
        blocked = torch.ones(size, dtype=torch.bool)
        blocked[[k for k in ids if k < size]] = False
        return cls(size, blocked.to(policy.device) if bool(blocked.any()) else None)

    def only(self, logp: Tensor) -> Tensor:
        """Return the log-probabilities (rows × size) of a head's, −∞ where there is no token."""
        # Of policy and guides alike, or a keep-set of the guide's holds such ids.
        logp = logp[:, : self.size]
        if self.blocked is None:
            return logp
        return logp.masked_fill(self.blocked.to(logp.device), -float("inf"))
