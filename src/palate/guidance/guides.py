"""Guides of a policy: scorers that give a reward of every next token, or of every prefix.

Every scorer can rate a text; a scorer that can do more says so by two methods, looked for by name:

- `token_guide()`: a `TokenGuide`, whose rewards of a response's tokens sum to the scorer's number;
- `prefix_guide()`: a `PrefixGuide`, which rates what is written so far.

Either may be None, where these settings do not allow it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self

from palate.engines import LocalModel, Reader, ValidIds, begin_rows, ids_of, vocabulary_of
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


class CallersModel:
    """A model and a tokenizer of the caller's, as a policy."""

    def __init__(self, model: Any, tokenizer: Any) -> None:
        self.model, self.tokenizer = model, tokenizer
        self.reference = str(getattr(model, "name_or_path", "") or type(model).__name__)
        self.vocabulary = vocabulary_of(tokenizer)

    @property
    def valid_ids(self) -> ValidIds:
        """The ids that mean a token."""
        return ValidIds.of(self.model, self.tokenizer, self.model.device)

    @property
    def ids(self) -> int:
        """How many ids there are."""
        return self.valid_ids.size

    @property
    def ends(self) -> frozenset[int]:
        """The ids that end a reply."""
        return ids_of(self.model.generation_config.eos_token_id)


def refuse_other_tokens(
    policy: Reader | CallersModel,
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
        side: {k: token for token, k in tokenizer.get_vocab().items()}
        for side, tokenizer in (("guide", guide), ("policy", policy))
    }
    ids = sorted({k for _, k in guide.get_vocab().items() ^ policy.get_vocab().items()})
    listed = [
        f"id {k}: "
        + ", ".join(
            f"{side} {repr(vocabulary[k]) if k in vocabulary else 'no token'}"
            for side, vocabulary in tokens.items()
        )
        for k in ids[:NAMED]
    ]
    return "; ".join(listed) + (f"; … {len(ids):,} ids in all" if len(ids) > NAMED else "")


class PrefixRows:
    """What is written so far, as a guide of prefixes reads it; `ends` are the policy's."""

    def __init__(
        self, guide: PrefixGuide, readings: Sequence[Reading], ends: Collection[int], room: int
    ) -> None:
        self.guide, self.ends = guide, ends
        self.slates = [reading.slate for reading in readings]
        (model,) = guide.models
        prompts = [reading.prompts[0] for reading in readings]
        self.rows = begin_rows(model, prompts, room + len(guide.closing))

    def rewards(self, tokens: Sequence[Sequence[int]]) -> Tensor:
        """Return the reward of each row's prefix with each of k tokens (rows × k), float32.

        An end token closes the conversation; its reward is that of the closed response.
        """
        rewards = self.guide.rewards(self.rows.look(tokens), self.slates)
        closing = {}
        for row, of_row in enumerate(tokens):
            if places := [j for j, token in enumerate(of_row) if token in self.ends]:
                closing[row] = places
        if closing:
            closed = self._closed(list(closing))
            for at, (row, places) in enumerate(closing.items()):
                rewards[row, places] = closed[at].to(rewards.dtype)
        return rewards

    def _closed(self, rows: Sequence[int]) -> Tensor:
        closing, closed = self.guide.closing, self.rows.of(rows)
        read = self.guide.read_position(closing)
        # Where all of the end is padding, the guide reads the last token before it. Behind a token
        # that is no padding, the position read tells whether it is.
        if self.guide.read_position([-1, *closing]) == 0:
            read = -1
        for token in closing[: read + 1]:
            closed.advance([token] * len(rows))
        rewards = self.guide.rewards(closed.outputs[:, None], [self.slates[row] for row in rows])
        return rewards[:, 0]

    def take(self, which: Sequence[int]) -> None:
        """Go on with one of the tokens just rated, by its number, of each row."""
        self.rows.take(which)

    def advance(self, tokens: Sequence[int]) -> None:
        """Give each row its next token."""
        self.rows.advance(tokens)

    def back(self, steps: int) -> None:
        """Forget each row's last tokens, as `Rows.back`."""
        self.rows.back(steps)

    def of(self, rows: Sequence[int]) -> Self:
        """Return these rows, in this order, one perhaps several times; a copy."""
        some = object.__new__(type(self))
        some.guide, some.ends, some.rows = self.guide, self.ends, self.rows.of(rows)
        some.slates = [self.slates[row] for row in rows]
        return some
