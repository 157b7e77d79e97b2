"""A loaded transformers model with its tokenizer, and what can be asked of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, partial
from math import exp
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from palate.engines.local import heads
from palate.engines.local.batches import read
from palate.engines.local.forward import Group, Reduce, TokenSpan
from palate.engines.local.loading import LoadedModel
from palate.engines.local.neighbours import without_neighbours
from palate.engines.local.read_mode import find_read_mode
from palate.engines.local.threads import FairLock
from palate.engines.local.valid_ids import ValidIds
from palate.engines.text.reader import Reader
from palate.records import Settings
from palate.specs import Reference

if TYPE_CHECKING:
    import torch


class LabelLogits(NamedTuple):
    """The logits of labels as the next token, and how probable any of them is."""

    values: tuple[float, ...]
    share: float

    @classmethod
    def of(cls, logits: Sequence[float]) -> Self:
        """Take the logits of labels, and behind them log Σ exp of all tokens' logits.

        >>> round(LabelLogits.of([0.0, 0.0, 2.079442]).share, 4)
        0.25
        """
        *labels, total = logits
        return cls(tuple(labels), sum(exp(label - total) for label in labels))


class LocalModel(LoadedModel):
    """What can be asked of a loaded model; beginnings that sequences share are read once."""

    def __init__(
        self,
        reference: Reference,
        head: str,
        settings: Settings,
        *,
        reader: Reader | None = None,
        turns: FairLock | None = None,
    ) -> None:
        super().__init__(reference, head, settings, reader=reader, turns=turns)
        if head != "encoder":  # whose tokens see what follows them
            self.read_mode = find_read_mode(self, settings.attention, head)
        self.read_mode = without_neighbours(self, head)

    @cached_property
    def head(self) -> heads.Head:
        """The language model's head, apart from what is below it."""
        return heads.Head(self)

    @cached_property
    def valid_ids(self) -> ValidIds:
        """The ids that may be drawn."""
        return ValidIds.of(self.model, self.tokenizer, self.device)

    def read(self, groups: Iterable[Group], reduce: Reduce) -> Iterator[tuple[int, list[Any]]]:
        """Yield (group, what `reduce` makes of the last hidden states wanted of each sequence)."""
        return self._read(groups, reduce)

    def hidden(self, groups: Iterable[Group]) -> Iterator[tuple[int, list[torch.Tensor]]]:
        """Yield (group, per sequence, the last hidden states at the wanted tokens, float32)."""
        return self._read(groups, lambda outputs, following: outputs.float().cpu())

    def outputs(self, groups: Iterable[Group]) -> Iterator[tuple[int, list[torch.Tensor]]]:
        """Yield (group, per sequence, what the model's head reads at the wanted tokens)."""
        return self._read(groups, lambda outputs, _: outputs, logits=not self.head.apart)

    def log_probabilities(
        self, groups: Iterable[Sequence[tuple[Sequence[int], int]]], width: int | None = None
    ) -> Iterator[tuple[int, list[torch.Tensor]]]:
        """Yield (group, for each (ids, start), log p of every token from `start` on), float32.

        Where a `width` is given, the ids from there on are left out of the softmax.
        """
        wanted = ([TokenSpan(i, s - 1, len(i) - 1) for i, s in group] for group in groups)
        head = self.head
        reduce = partial(head.log_probabilities, width=width)
        return self._read(wanted, reduce, logits=not head.apart)

    def label_logits(
        self, groups: Iterable[Sequence[Sequence[int]]], labels: Sequence[int]
    ) -> Iterator[tuple[int, list[LabelLogits]]]:
        """Yield (group, for each sequence, the next-token logits of these label ids, their share).

        Only differences between labels have a meaning: a language model's logits have no zero.
        """
        head = self.head
        for k, of_group in self._read(
            last_tokens(groups), head.of_labels(labels), logits=not head.apart
        ):
            yield k, [LabelLogits.of([float(it) for it in logits[0]]) for logits in of_group]

    def next_token_logits(self, sequences: Sequence[Sequence[int]]) -> torch.Tensor:
        """Return the logits of every next token (sequences × vocabulary), float32, on the device.

        Beginnings that the sequences share are read once.
        """
        head = self.head
        groups = self._read(last_tokens([sequences]), head.logits, logits=not head.apart)
        rows: torch.Tensor = self.torch.cat(next(logits for _, logits in groups))
        return rows

    def pooled(self, sequences: Sequence[Sequence[int]]) -> Iterator[tuple[int, torch.Tensor]]:
        """Yield (position, the logits of the model's own head), for models that pool themselves.

        Where a model's configuration names no pad token, its head may need batches of one.
        """
        with self.in_use():
            yield from heads.pooled(self, sequences)

    def _read(
        self, groups: Iterable[Group], reduce: Reduce, *, logits: bool = False
    ) -> Iterator[tuple[int, list[Any]]]:
        with self.in_use():
            yield from read(self, groups, reduce, logits=logits)


def last_tokens(groups: Iterable[Sequence[Sequence[int]]]) -> Iterator[Group]:
    """Want the output at the last token of each sequence."""
    return ([TokenSpan(ids, len(ids) - 1, len(ids)) for ids in group] for group in groups)
