"""A loaded transformers model with its tokenizer, and what can be asked of it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from palate.engines.local import heads
from palate.engines.local.batches import read
from palate.engines.local.forward import Group, Reduce, TokenSpan
from palate.engines.local.loading import LoadedModel
from palate.engines.local.read_mode import find_read_mode
from palate.models import (
    cache_folder,
    choose_device,
    import_torch,
    import_transformers,
    resolve,
)
from palate.records import Settings
from palate.seeding import digest
from palate.specs import Reference

if TYPE_CHECKING:
    import torch


FORMAT = 2
"""Raised when models are asked in another way how they can be read."""


class LocalModel(LoadedModel):
    """What can be asked of a loaded model; beginnings that sequences share are read once."""

    def __init__(self, reference: Reference, head: str, settings: Settings) -> None:
        super().__init__(reference, head, settings)
        self.read_mode = find_read_mode(self, settings.attention)
        file = _route_file(reference, head, settings)
        if not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            new = file.with_name(f"{file.name}.{os.getpid()}")
            new.write_text(str(self.read_mode), encoding="utf-8")
            new.replace(file)

    @cached_property
    def head(self) -> heads.Head:
        """The language model's head, apart from what is below it."""
        return heads.Head(self)

    def read(self, groups: Iterable[Group], reduce: Reduce) -> Iterator[tuple[int, list[Any]]]:
        """Yield (group, what `reduce` makes of the last hidden states wanted of each sequence)."""
        return read(self, groups, reduce)

    def hidden(self, groups: Iterable[Group]) -> Iterator[tuple[int, list[torch.Tensor]]]:
        """Yield (group, per sequence, the last hidden states at the wanted tokens, float32)."""
        return read(self, groups, lambda outputs, following: outputs.float().cpu())

    def log_probabilities(
        self, groups: Iterable[Sequence[tuple[Sequence[int], int]]]
    ) -> Iterator[tuple[int, list[torch.Tensor]]]:
        """Yield (group, for each (ids, start), log p of every token from `start` on), float32."""
        wanted = ([TokenSpan(i, s - 1, len(i) - 1) for i, s in group] for group in groups)
        head = self.head
        return read(self, wanted, head.log_probabilities, logits=not head.apart)

    def label_logits(
        self, groups: Iterable[Sequence[Sequence[int]]], labels: Sequence[int]
    ) -> Iterator[tuple[int, list[tuple[float, ...]]]]:
        """Yield (group, for each sequence, the next-token logits of these label ids).

        Only differences between labels have a meaning: a language model's logits have no zero.
        """
        head = self.head
        for k, found in read(
            self, last_tokens(groups), head.of_labels(labels), logits=not head.apart
        ):
            yield k, [tuple(float(logit) for logit in logits[0]) for logits in found]

    def next_tokens(
        self, groups: Iterable[Sequence[Sequence[int]]]
    ) -> Iterator[tuple[int, list[torch.Tensor]]]:
        """Yield (group, for each sequence, log p of every next token), float32, one row each."""
        head = self.head
        for k, found in read(self, last_tokens(groups), head.distributions, logits=not head.apart):
            yield k, [row[0] for row in found]

    def pooled(self, sequences: Sequence[Sequence[int]]) -> Iterator[tuple[int, torch.Tensor]]:
        """Yield (position, the logits of the model's own head), for models that pool themselves.

        Where a model's configuration names no pad token, its head may need batches of one.
        """
        return heads.pooled(self, sequences)


def last_tokens(groups: Iterable[Sequence[Sequence[int]]]) -> Iterator[Group]:
    """Want the output at the last token of each sequence."""
    return ([TokenSpan(ids, len(ids) - 1, len(ids)) for ids in group] for group in groups)


_loaded: dict[tuple[str, str, str, Settings], LocalModel] = {}


def load_local(reference: Reference, head: str, settings: Settings) -> LocalModel:
    """Return the model, loaded at most once while nothing else is asked for.

    One model is held at a time: a grid goes scorer by scorer.
    """
    key = (str(reference), resolve(reference).content, head, settings)
    if key not in _loaded:
        _loaded.clear()
        _loaded[key] = LocalModel(reference, head, settings)
    return _loaded[key]


def read_mode_of(reference: Reference, head: str, settings: Settings) -> str | None:
    """Return how a model is read, as remembered since it was last loaded; None if it never was.

    So a finished run, or one whose models live elsewhere, loads no model to say it.
    """
    file = _route_file(reference, head, settings)
    return file.read_text(encoding="utf-8") if file.exists() else None


def _route_file(reference: Reference, head: str, settings: Settings) -> Path:
    versions = [import_torch().__version__, import_transformers().__version__]
    device = choose_device(settings.device)
    made = digest(
        resolve(reference).content, head, device, settings.dtype, settings.attention, *versions
    )
    return cache_folder() / "routes" / f"{made[:16]}-v{FORMAT}"
