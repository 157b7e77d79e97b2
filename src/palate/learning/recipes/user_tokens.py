"""Soft tokens of a user: vectors that a language model reads before the question.

A user u has T vectors e_u = e_0 + o_u: e_0 is everybody's, o_u the user's own (P-DPO, Li et al.
2024, arXiv 2402.05133). They are ordinary token ids beyond the vocabulary, so whatever reads ids
reads them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from palate.engines import ChatTemplate, Encoded
from palate.models import import_torch
from palate.records import Message

GENERIC = 0
"""The block of ids of a user of whom nothing is known."""


def head(template: ChatTemplate) -> str:
    """Return what a template writes before the first words of the first message."""
    one, other = (template.answer_text((Message(role="user", content=text),)) for text in "ab")
    apart = (k for k, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)
    return one[: next(apart, len(one))]


def opening(template: ChatTemplate) -> tuple[int, ...]:
    """Return the tokens of `head`: behind them stand the soft tokens."""
    return tuple(template.tokenizer(head(template), add_special_tokens=False)["input_ids"])


def with_tokens(encoded: Encoded, opening: Sequence[int], tokens: Sequence[int]) -> Encoded:
    """Put a user's tokens where the first message's words begin; all other tokens stay.

    Training, adapting and scoring all call this, so the place is the same in all three.

    >>> with_tokens(Encoded((1, 2, 7, 8, 3, 9), 5), (1, 2), (50, 51))
    Encoded(ids=(1, 2, 50, 51, 7, 8, 3, 9), start=7)
    """
    pairs = enumerate(zip(opening, encoded.ids, strict=False))
    shorter = min(len(opening), len(encoded.ids))
    place = min(next((k for k, (ours, theirs) in pairs if ours != theirs), shorter), encoded.start)
    ids = (*encoded.ids[:place], *tokens, *encoded.ids[place:])
    return Encoded(ids, encoded.start + len(tokens))


def block(first: int, tokens: int, user: int) -> range:
    """Return the ids of a user's tokens: block 0 is the generic user's, k the k-th user's."""
    return range(first + user * tokens, first + (user + 1) * tokens)


def install(model: Any, generic: Any, offsets: Any, unit: float = 1.0) -> Any:
    """Let a model read soft tokens beyond its table of words, and return the module that does.

    `generic` is e_0 (T × d), `offsets` are the users' o_u / unit (users × T × d). Installed before,
    they are replaced. The output's vocabulary stays as it is.
    """
    words = model.get_input_embeddings()
    words = getattr(words, "words", words)
    module = _user_tokens()(words, generic, offsets, unit)
    model.set_input_embeddings(module.to(words.weight.device))
    return module


def uninstall(model: Any) -> None:
    """Give a model its own table of words back."""
    words = model.get_input_embeddings()
    model.set_input_embeddings(getattr(words, "words", words))


@cache
def _user_tokens() -> Any:
    torch = import_torch()

    class UserTokens(torch.nn.Module):  # type: ignore[misc, name-defined]
        """The table of words, and after it T ids for everybody and T for each user."""

        def __init__(self, words: Any, generic: Any, offsets: Any, unit: float) -> None:
            super().__init__()
            self.words, self.unit = words, unit
            self.generic = torch.nn.Parameter(generic)
            self.offsets = torch.nn.Parameter(offsets)
            self.first = words.weight.shape[0]

        @property
        def weight(self) -> Any:
            """The table of words, for whoever asks an embedding for it."""
            return self.words.weight

        @property
        def num_embeddings(self) -> int:
            """Words, soft tokens not counted."""
            return int(self.first)

        def users(self, ids: Any) -> Any:
            """Return the user of each row of ids (0: generic), by its largest id."""
            found = (ids.amax(dim=-1) - self.first) // len(self.generic)
            return found.clamp(min=GENERIC)

        def as_generic(self, ids: Any) -> Any:
            """Return the same ids with every user's tokens replaced by everybody's."""
            return torch.where(
                ids < self.first, ids, self.first + (ids - self.first) % len(self.generic)
            )

        def forward(self, ids: Any) -> Any:
            soft = ids >= self.first
            vectors = self.words(ids.masked_fill(soft, 0))
            numbers = ids[soft] - self.first
            user, place = numbers // len(self.generic), numbers % len(self.generic)
            found = self.generic[place]
            if len(self.offsets):
                own = self.offsets[(user - 1).clamp(min=0), place] * self.unit
                found = found + torch.where((user > GENERIC)[:, None], own, 0.0)
            return vectors.masked_scatter(soft[..., None], found.to(vectors.dtype))

    return UserTokens


def response_log_probs(model: Any, rows: Sequence[Encoded]) -> Any:
    """Return Σ log p of each row's tokens from its start on (n, float32), read as one batch."""
    torch = import_torch()
    device = next(model.parameters()).device
    longest = max(len(row.ids) for row in rows)
    ids = torch.zeros(len(rows), longest, dtype=torch.long)
    seen, wanted = torch.zeros_like(ids), torch.zeros_like(ids, dtype=torch.bool)
    for k, row in enumerate(rows):
        ids[k, : len(row.ids)] = torch.tensor(row.ids)
        seen[k, : len(row.ids)] = 1
        wanted[k, row.start : len(row.ids)] = True
    ids, seen, wanted = (it.to(device) for it in (ids, seen, wanted[:, 1:]))
    logits = model(input_ids=ids, attention_mask=seen, use_cache=False).logits[:, :-1][wanted]
    lost = torch.nn.functional.cross_entropy(logits.float(), ids[:, 1:][wanted], reduction="none")
    # Row by row: `index_add` sums in another order each time on an accelerator.
    return -torch.zeros(wanted.shape, device=device).masked_scatter(wanted, lost).sum(dim=1)
