"""Rows as a model reads them in training, and the order in which training sees them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

from palate.engines import ChatTemplate, Encoded
from palate.errors import DataError
from palate.learning.states import History
from palate.models import import_torch
from palate.prompts import read_candidates
from palate.records import Choice, Part, PreferencePair, Slate
from palate.seeding import shuffled

IGNORED = -100
"""The label of a token that no loss is taken of."""
SORTED_TOGETHER = 16
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


class EncodedChoice(NamedTuple):
    """Both closed conversations of a choice, end of turn included."""

    chosen: Encoded
    rejected: Encoded

    @property
    def width(self) -> int:
        """Tokens of the longer conversation."""
        return max(len(self.chosen.ids), len(self.rejected.ids))

    @property
    def columns(self) -> dict[str, Sequence[int]]:
        """What `collate` reads of it."""
        chosen, rejected = self
        starts = (chosen.start, rejected.start)
        return {"chosen_ids": chosen.ids, "rejected_ids": rejected.ids, "starts": starts}


class EncodedPair(NamedTuple):
    """A user's choice, encoded without any soft token; `user` counts from 1."""

    user: int
    choice: EncodedChoice

    @property
    def width(self) -> int:
        """Tokens of the longer conversation."""
        return self.choice.width


class TrainingExample(NamedTuple):
    """A prompt and the reply that is to be learned, which starts at `start`."""

    ids: tuple[int, ...]
    start: int

    @property
    def width(self) -> int:
        """Tokens of both."""
        return len(self.ids)

    @property
    def labels(self) -> list[int]:
        """The reply's tokens; the prompt's are ignored."""
        return [IGNORED] * self.start + list(self.ids[self.start :])

    @property
    def columns(self) -> dict[str, Sequence[int]]:
        """What TRL's trainer reads of it."""
        return {"input_ids": self.ids, "labels": self.labels}


def keep_users(pairs: Sequence[PreferencePair], leave_out: Collection[str]) -> list[PreferencePair]:
    """Return the pairs to train on; raises `DataError` for an undecided pair, or for no pair."""
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


def encode_pair(
    pair: PreferencePair, template: ChatTemplate, shown: tuple[Part, ...] = ()
) -> TokenPair:
    """Return both conversations exactly as palate's scorers encode them."""
    return TokenPair(*read_candidates(_slate(pair, shown), template.conversation))


def encode_choice(
    choice: Choice | PreferencePair, template: ChatTemplate, shown: tuple[Part, ...] = ()
) -> EncodedChoice:
    """Return both conversations, end of turn included, as the scorers read them."""
    return EncodedChoice(*read_candidates(_slate(choice, shown), template.closed))


def _slate(choice: Choice | PreferencePair, shown: tuple[Part, ...]) -> Slate:
    texts = choice.chosen, choice.rejected
    return Slate(question=choice.messages, shown=shown, candidates=texts)


def encode_choices(
    template: ChatTemplate, history: History, limit: float
) -> tuple[dict[str, list[EncodedChoice]], int]:
    """Encode each user's choices with nothing shown; also return how many are over the limit."""
    every = {user: [encode_choice(c, template) for c in listed] for user, listed in history.items()}
    fitting = {user: [c for c in listed if c.width <= limit] for user, listed in every.items()}
    return fitting, sum(map(len, every.values())) - sum(map(len, fitting.values()))


R = TypeVar("R", bound="TokenPair | EncodedChoice | TrainingExample | EncodedPair")


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
    for first in range(0, steps, SORTED_TOGETHER):
        last = min(first + SORTED_TOGETHER, steps)
        group = sorted(drawn[first * batch_pairs : last * batch_pairs], key=lambda row: row.width)
        cut = [group[k : k + batch_pairs] for k in range(0, len(group), batch_pairs)]
        yield from shuffled(cut, "batches", seed, first)


def collate(pad: int) -> Callable[[Sequence[dict[str, Any]]], dict[str, Any]]:
    """Return what makes a batch of TRL's DPOTrainer of encoded choices, without a reference.

    The reference's log-probabilities are 0. TRL's own batches have one prompt for both replies;
    here each reply starts where its scorer says, though a token may span the seam.
    """
    from trl.trainer.dpo_trainer import DataCollatorForPreference

    torch, padded = import_torch(), DataCollatorForPreference(pad_token_id=pad)

    def batch(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
        tensors: dict[str, Any] = padded(
            [{"prompt_ids": [], **{k: list(v) for k, v in row.items()}} for row in rows]
        )
        starts = torch.tensor([row["starts"] for row in rows]).T.reshape(-1, 1)
        mask = tensors["completion_mask"]
        mask[torch.arange(mask.shape[1]) < starts] = 0
        zero = torch.zeros(len(rows))
        return {**tensors, "ref_chosen_logps": zero, "ref_rejected_logps": zero}

    return batch
