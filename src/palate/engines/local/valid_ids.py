"""Which ids are tokens: a head may be wider than its tokenizer, and a tokenizer may have holes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Self

from palate.engines.text.reader import id_count
from palate.models import import_torch

if TYPE_CHECKING:
    from torch import Tensor


class ValidIds(NamedTuple):
    """The ids that a model may write."""

    size: int
    """All tokens lie below."""
    blocked: Tensor | None
    """True at ids below that are no token; None where all are."""

    @classmethod
    def of(cls, model: Any, tokenizer: Any, device: Any) -> Self:
        """Return a transformers model's; without a tokenizer every id of its head."""
        torch = import_torch()
        size = id_count(tokenizer, model.config.get_text_config())
        if tokenizer is None:
            return cls(size, None)
        blocked = torch.ones(size, dtype=torch.bool)
        blocked[[k for k in tokenizer.get_vocab().values() if k < size]] = False
        return cls(size, blocked.to(device) if bool(blocked.any()) else None)

    def only(self, logp: Tensor) -> Tensor:
        """Return the log-probabilities (rows × size) of a head's, −∞ where there is no token."""
        # Of policy and guides alike, or a keep-set of the guide's holds such ids.
        logp = logp[:, : self.size]
        if self.blocked is None:
            return logp
        return logp.masked_fill(self.blocked.to(logp.device), -float("inf"))
