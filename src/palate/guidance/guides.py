"""Guides of a policy: scorers that give a reward of every next token, or of every prefix.

Every scorer can rate a text; a scorer that can do more says so by two methods, looked for by name:

- `token_guide()`: a `TokenGuide`, whose rewards of a response's tokens sum to the scorer's number;
- `prefix_guide()`: a `PrefixGuide`, which rates what is written so far.

Either may be None, where these settings do not allow it.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from palate.engines.local import LocalModel
from palate.engines.text.reader import Reader
from palate.errors import UsageError
from palate.records import Slate

if TYPE_CHECKING:
    from torch import Tensor

Ids = Sequence[int]
NAMED = 3
"""Ids that an error names."""
WHOLE_TEXTS = (
    "take palate decode with the method blocks or rejection, or a scorer such as autoregressive, "
    "implicit, lift or likelihood"
)


class Reading(NamedTuple):
    """What a guide reads before the response: a slate cut to its windows, as tokens."""

    slate: Slate
    prompts: tuple[Ids, ...]
    """Of each of its models."""
    dropped: int = 0
    """Shown parts that did not fit."""


class Guide(Protocol):
    """What both kinds of guide have."""

    readers: tuple[Reader, ...]
    """Of its models, in the order of a reading's prompts."""

    @property
    def models(self) -> tuple[LocalModel, ...]:
        """Its models, loaded; do not keep them."""

    def read(self, slate: Slate, room: int) -> Reading:
        """Return what it reads of a slate, with room for so many tokens of a response."""

    def in_place(self) -> AbstractContextManager[None]:
        """Keep what its models need in place meanwhile, such as tokens of users."""


class TokenGuide(Guide, Protocol):
    """Rewards a next token v with Σ_j c_j log q_j(v | prompt_j, response so far)."""

    coefficients: tuple[float, ...]


class PrefixGuide(Guide, Protocol):
    """Rewards what is written so far by one model's output at its last token."""

    closing: Ids
    """What follows a response in a closed conversation."""

    def read_position(self, ids: Ids) -> int:
        """Return the position of the token whose output is read."""

    def rewards(self, outputs: Tensor, slates: Sequence[Slate]) -> Tensor:
        """Return the rewards (rows × k, float32) of outputs (rows × k × width) for their users."""


def token_guide(scorer: Any, spec: str) -> TokenGuide:
    """Return a scorer's reward of tokens; raises `UsageError` where it has none."""
    guide: TokenGuide | None = getattr(scorer, "token_guide", lambda: None)()
    if guide is None:
        prefixes = getattr(scorer, "prefix_guide", lambda: None)() is not None
        raise UsageError(
            f"{spec} rewards no single tokens; "
            + ("take the method args, which rates prefixes" if prefixes else WHOLE_TEXTS)
        )
    return guide


def prefix_guide(scorer: Any, spec: str) -> PrefixGuide:
    """Return a scorer's reward of prefixes; raises `UsageError` where it has none."""
    guide: PrefixGuide | None = getattr(scorer, "prefix_guide", lambda: None)()
    if guide is None:
        raise UsageError(f"{spec} rates whole texts only; {WHOLE_TEXTS}")
    return guide


class Tokens(Protocol):
    """What a policy reads and writes."""

    @property
    def reference(self) -> object:
        """Which model it is."""

    @property
    def tokenizer(self) -> Any:
        """Its tokenizer."""

    @property
    def vocabulary(self) -> str:
        """Hash of which id means which token."""

    @property
    def ids(self) -> int:
        """How many ids there are."""

    @property
    def ends(self) -> frozenset[int]:
        """The ids that end a reply."""


def refuse_other_tokens(
    policy: Tokens,
    guide: Guide,
    spec: str,
    otherwise: str = "methods of segments (blocks, rejection) read texts",
) -> None:
    """Raise `UsageError` where a token or an end token does not mean the same to both.

    Rows of a head beyond the tokenizer mean nothing, so their number may differ.
    """
    for reader in guide.readers:
        if reader.reference == policy.reference:
            continue
        what = f"{spec}: {reader.reference} and the policy {policy.reference}"
        if reader.vocabulary != policy.vocabulary:
            differ = _different(reader.tokenizer, policy.tokenizer)
            raise UsageError(f"{what} split texts into other tokens ({differ}); {otherwise}")
        if reader.ends != policy.ends:
            named = " and ".join(str(sorted(ends)) for ends in (reader.ends, policy.ends))
            raise UsageError(f"{what} have other end tokens ({named}); {otherwise}")
        if reader.ids < policy.ids:
            raise UsageError(
                f"{what} share a tokenizer, but the guide's weights end at {reader.ids} of "
                f"{policy.ids} tokens; resize its token embeddings, or: {otherwise}"
            )


def _different(guide: Any, policy: Any) -> str:
    """Name the first ids that are not one token to both tokenizers."""
    tokens = {
        whose: {k: token for token, k in tokenizer.get_vocab().items()}
        for whose, tokenizer in (("guide", guide), ("policy", policy))
    }
    ids = sorted({k for _, k in guide.get_vocab().items() ^ policy.get_vocab().items()})
    listed = [
        f"id {k}: "
        + ", ".join(
            f"{whose} {repr(each[k]) if k in each else 'no token'}"
            for whose, each in tokens.items()
        )
        for k in ids[:NAMED]
    ]
    return "; ".join(listed) + (f"; … {len(ids):,} ids in all" if len(ids) > NAMED else "")
