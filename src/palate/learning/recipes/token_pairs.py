"""From pairs to token ids, and the order in which training sees them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple, Protocol, TypeVar

from palate.engines import ChatTemplate
from palate.errors import DataError
from palate.prompts import render
from palate.records import PreferencePair
from palate.seeding import shuffled

GROUP = 16
"""Batches that are sorted by length together."""


class TokenPair(NamedTuple):
    """A pair as the model reads it."""

    chosen: tuple[int, ...]
    rejected: tuple[int, ...]

    @property
    def width(self) -> int:
        """Tokens of the longer conversation."""
        return max(len(self.chosen), len(self.rejected))

    @property
    def columns(self) -> dict[str, Sequence[int]]:
        """What TRL's trainer reads of it."""
        return {"chosen_ids": self.chosen, "rejected_ids": self.rejected}


class HasWidth(Protocol):
    """What has a length in tokens."""

    @property
    def width(self) -> int:
        """Tokens that a batch must hold of it."""


R = TypeVar("R", bound=HasWidth)


def keep_users(pairs: Sequence[PreferencePair], leave_out: Collection[str]) -> list[PreferencePair]:
    """Return the pairs of the users that may be trained on.

    Raises:
        DataError: for an undecided pair, or if nothing is left.
    """
    left_out = frozenset(leave_out)
    allowed = [pair for pair in pairs if pair.user_id not in left_out]
    undecided = next((pair for pair in allowed if pair.tie), None)
    if undecided is not None:
        raise DataError(
            f"pair {undecided.id!r} is undecided; leave such pairs out of training", field="tie"
        )
    if not allowed:
        users = f" ({len(left_out)} users are left out)" if pairs else ""
        raise DataError(f"no pair to train on{users}")
    return allowed


def encode(pair: PreferencePair, template: ChatTemplate) -> TokenPair:
    """Return both conversations exactly as palate's scorers encode them, with nothing shown."""
    question = render(pair.messages)
    return TokenPair(
        template.conversation(question, pair.chosen), template.conversation(question, pair.rejected)
    )


def in_batches(rows: Sequence[R], batch_pairs: int, steps: int, seed: int) -> Iterator[list[R]]:
    """Yield the batches of a training run, each epoch in another order, rows of a length together.

    16 batches at a time are drawn, sorted by length, cut and shuffled, so a batch of convincing
    arguments is padded to 134 tokens instead of 182 and early steps see all lengths.

    >>> rows = [TokenPair((0,) * n, (0,)) for n in (5, 1, 4, 2)]
    >>> sorted([row.width for row in batch] for batch in in_batches(rows, 2, 2, seed=0))
    [[1, 2], [4, 5]]
    """
    drawn: list[R] = []
    for epoch in range(-(-steps * batch_pairs // len(rows))):
        drawn += shuffled(rows, "train", seed, epoch)
    for first in range(0, steps, GROUP):
        last = min(first + GROUP, steps)
        group = sorted(drawn[first * batch_pairs : last * batch_pairs], key=lambda row: row.width)
        cut = [group[k : k + batch_pairs] for k in range(0, len(group), batch_pairs)]
        yield from shuffled(cut, "batches", seed, first)
