"""Rows of any other model: its own cache where it keeps one, else every row is read again."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from palate.engines.local.model import LocalModel

if TYPE_CHECKING:
    from torch import Tensor

Ids = Sequence[int]


class CachedRows:
    """The model's own cache where it keeps one, else every row read again at each step."""

    def __init__(
        self,
        local: LocalModel,
        prompts: Sequence[Ids],
        owners: Sequence[int],
        room: int,
        logits: bool,
    ) -> None:
        del room
        self.local, self.logits = local, logits
        self.parts: list[_Part] = []
        self.owners = [owner for owner, _ in groupby(owners)]
        for owner, rows in groupby(owners):
            ids = local.torch.tensor([list(prompts[owner])] * len(list(rows)), device=local.device)
            self.parts.append(_Part(ids, None))

    def first(self) -> Tensor:
        """Return the outputs of each prompt."""
        rows: dict[int, Tensor] = {}
        for owner, part in zip(self.owners, self.parts, strict=True):
            rows[owner] = self._run(part, part.ids)[:1]
        joined: Tensor = self.local.torch.cat([rows[owner] for owner in sorted(rows)])
        return joined

    def step(self, tokens: Sequence[int]) -> Tensor:
        """Return the outputs at each row's next token."""
        return self._step(self.parts, list(tokens))

    def _step(self, parts: Sequence[_Part], tokens: list[int]) -> Tensor:
        torch, outputs = self.local.torch, []
        for part in parts:
            n = len(part.ids)
            more = torch.tensor(tokens[:n], device=self.local.device)[:, None]
            del tokens[:n]
            sides, length = self.local.sides, part.ids.shape[1]
            if sides.of(length) != sides.of(length + 1):  # what is kept has other factors
                part.cache = None
            part.ids = torch.cat([part.ids, more], dim=1)
            outputs.append(self._run(part, more if part.cache is not None else part.ids))
        joined: Tensor = torch.cat(outputs)
        return joined

    def _run(self, part: _Part, tokens: Tensor) -> Tensor:
        model = self.local.model if self.logits else self.local.model.base_model
        output = model(input_ids=tokens, past_key_values=part.cache, use_cache=True)
        cache = getattr(output, "past_key_values", None)
        part.cache = cache if hasattr(cache, "batch_select_indices") else None
        every = output.logits if self.logits else output.last_hidden_state
        last: Tensor = every[:, -1]
        return last

    def look(self, tokens: Sequence[Sequence[int]]) -> Tensor:
        """Return the outputs (rows × k × width) at other next tokens of each row."""
        width, position = len(tokens[0]), 0
        self._looked = []
        for part in self.parts:
            self._looked.append(
                part.of([row for row in range(len(part.ids)) for _ in range(width)])
            )
            position += len(part.ids)
        flat = [token for of_row in tokens for token in of_row]
        looked: Tensor = self._step(self._looked, flat).unflatten(0, (position, width))
        return looked

    def take(self, which: Sequence[int]) -> None:
        """Go on with one of the tokens just looked at of each row."""
        left, width = list(which), len(self._looked[0].ids) // len(self.parts[0].ids)
        for k, part in enumerate(self.parts):
            chosen = left[: len(part.ids)]
            del left[: len(part.ids)]
            self.parts[k] = self._looked[k].of([r * width + c for r, c in enumerate(chosen)])

    def back(self, steps: int) -> None:
        """Forget each row's last tokens."""
        # Not every cache can be cut back (windows, recurrent states): the rows are read again.
        self.parts = [_Part(part.ids[:, : part.ids.shape[1] - steps], None) for part in self.parts]

    @staticmethod
    def join(parts: Sequence[tuple[CachedRows, list[int]]]) -> CachedRows:
        """Return chosen rows of several, one after another."""
        first = parts[0][0]
        joined = object.__new__(CachedRows)
        joined.local, joined.logits, joined.parts = first.local, first.logits, []
        for whole, rows in parts:
            place = [(k, row) for k, part in enumerate(whole.parts) for row in range(len(part.ids))]
            for k, wanted in groupby((place[row] for row in rows), key=lambda it: it[0]):
                joined.parts.append(whole.parts[k].of([row for _, row in wanted]))
        return joined


class _Part:
    """Rows of one prompt: their tokens, and the model's own cache of all but the last run."""

    def __init__(self, ids: Tensor, cache: Any) -> None:
        self.ids, self.cache = ids, cache

    def of(self, rows: Sequence[int]) -> _Part:
        cache = copy.deepcopy(self.cache)
        index = self.ids.new_tensor(list(rows))
        if cache is not None:
            cache.batch_select_indices(index)
        return _Part(self.ids[index], cache)
