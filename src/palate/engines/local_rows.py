"""Rows that go on from prompts, a token at a time; a prompt is read once for all of its rows.

Rows of a model that reads trees are `TreeRows`, those of any other `CachedRows`.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, Self

from palate.engines.local_attention import KVSteps, Layout
from palate.engines.local_forward import SMALLEST, as_it_fits, forward
from palate.engines.local_kernels import KeysValues
from palate.engines.local_loading import concatenated
from palate.engines.local_model import LocalModel
from palate.engines.local_tree import Ids, Segment

if TYPE_CHECKING:
    from torch import Tensor


def begin_rows(
    local: LocalModel, prompts: Sequence[Ids], room: int, *, logits: bool = False
) -> KVRows:
    """Return rows that go on from prompts by at most `room` tokens, while the model is `in_use`."""
    reach, longest = local.read_mode.reach, max(map(len, prompts))
    tree = local.read_mode.tree and (reach is None or longest + room <= reach)
    tree &= not local.regimes.crossed(local.reference, min(map(len, prompts)), longest + room)
    return (TreeRows if tree else CachedRows)(local, prompts, room, logits=logits)


class KVRows(ABC):
    """Continuations of prompts side by side, each as long as every other.

    Equal prompts that stand together are read once. Outputs are hidden states, or the model's own
    logits where its head cannot be had apart.
    """

    def __init__(
        self, local: LocalModel, prompts: Sequence[Ids], room: int, *, logits: bool
    ) -> None:
        self.local, self.logits = local, logits
        number = {ids: k for k, ids in enumerate(dict.fromkeys(map(tuple, prompts)))}
        owners = [number[tuple(ids)] for ids in prompts]
        with local.writing():
            self._last = self._begin(list(number), owners, room)
        self._alike: list[int] | None = owners

    def __len__(self) -> int:
        return len(self._last if self._alike is None else self._alike)

    @property
    def outputs(self) -> Tensor:
        """What is at each row's last token (rows × width)."""
        return self.each(lambda outputs: outputs)

    def each(self, reduce: Callable[[Tensor], Tensor]) -> Tensor:
        """Return what a function makes of each row's outputs; alike rows are reduced once."""
        with self.local.torch.inference_mode():
            made = reduce(self._last)
            return made if self._alike is None else made[self._alike]

    def advance(self, tokens: Sequence[int]) -> None:
        """Give each row its next token."""
        with self.local.writing():
            self._last, self._alike = self._step(tokens), None

    def look(self, tokens: Sequence[Sequence[int]]) -> Tensor:
        """Return the outputs (rows × k × width) that k other next tokens of each row would have."""
        with self.local.writing():
            looked: Tensor = self._look(tokens).unflatten(0, (len(tokens), -1))
        self._next = looked
        return looked

    def take(self, which: Sequence[int]) -> None:
        """Go on with one of the tokens just looked at, by its number, of each row."""
        with self.local.torch.inference_mode():
            self._take(list(which))
            self._last, self._alike = self._next[range(len(which)), list(which)], None

    @abstractmethod
    def back(self, steps: int) -> None:
        """Forget each row's last tokens; outputs are there again after the next `advance`."""

    def of(self, rows: Sequence[int]) -> Self:
        """Return these rows, in this order, one perhaps several times; a copy."""
        return self.join([(self, rows)])

    @classmethod
    def join(cls, parts: Sequence[tuple[Self, Sequence[int]]]) -> Self:
        """Return chosen rows of several, one after another; all are equally long."""
        first = parts[0][0]
        joined: Self = object.__new__(type(first))
        joined.local, joined.logits = first.local, first.logits
        with first.local.torch.inference_mode():
            joined._take_over([(part, list(rows)) for part, rows in parts])
            outputs = [part.outputs[list(rows)] for part, rows in parts]
            joined._last, joined._alike = first.local.torch.cat(outputs), None
        return joined

    @abstractmethod
    def _begin(self, prompts: Sequence[Ids], owners: Sequence[int], room: int) -> Tensor:
        """Read the prompts of rows and return the outputs of each prompt."""

    @abstractmethod
    def _step(self, tokens: Sequence[int]) -> Tensor: ...

    @abstractmethod
    def _look(self, tokens: Sequence[Sequence[int]]) -> Tensor: ...

    @abstractmethod
    def _take(self, which: list[int]) -> None: ...

    @abstractmethod
    def _take_over(self, parts: Sequence[tuple[Any, list[int]]]) -> None: ...


class CachedRows(KVRows):
    """The model's own cache where it keeps one, else every row read again at each step."""

    def _begin(self, prompts: Sequence[Ids], owners: Sequence[int], room: int) -> Tensor:
        self.parts: list[_Part] = []
        first: dict[int, Tensor] = {}
        for owner, rows in groupby(owners):
            part = _Part(self.local.tensor(*([prompts[owner]] * len(list(rows)))), None)
            first[owner] = self._run(part, part.ids)[:1]
            self.parts.append(part)
        return concatenated([first[owner] for owner in sorted(first)])

    def _step(self, tokens: Sequence[int]) -> Tensor:
        return self._step_of(self.parts, list(tokens))

    def _step_of(self, parts: Sequence[_Part], tokens: list[int]) -> Tensor:
        torch, outputs = self.local.torch, []
        for part in parts:
            n = len(part.ids)
            more = torch.tensor(tokens[:n], device=self.local.device)[:, None]
            del tokens[:n]
            regimes, length = self.local.regimes, part.ids.shape[1]
            if regimes.of(length) != regimes.of(length + 1):  # what is kept has other factors
                part.cache = None
            part.ids = torch.cat([part.ids, more], dim=1)
            outputs.append(self._run(part, more if part.cache is not None else part.ids))
        return concatenated(outputs)

    def _run(self, part: _Part, tokens: Tensor) -> Tensor:
        model = self.local.model if self.logits else self.local.model.base_model
        output = model(input_ids=tokens, past_key_values=part.cache, use_cache=True)
        cache = getattr(output, "past_key_values", None)
        part.cache = cache if hasattr(cache, "batch_select_indices") else None
        every = output.logits if self.logits else output.last_hidden_state
        last: Tensor = every[:, -1]
        return last

    def _look(self, tokens: Sequence[Sequence[int]]) -> Tensor:
        width = len(tokens[0])
        self._looked = [
            part.of([row for row in range(len(part.ids)) for _ in range(width)])
            for part in self.parts
        ]
        return self._step_of(self._looked, [token for of_row in tokens for token in of_row])

    def _take(self, which: list[int]) -> None:
        width = len(self._looked[0].ids) // len(self.parts[0].ids)
        for k, part in enumerate(self.parts):
            chosen, which = which[: len(part.ids)], which[len(part.ids) :]
            self.parts[k] = self._looked[k].of([r * width + c for r, c in enumerate(chosen)])

    def back(self, steps: int) -> None:
        """Forget each row's last tokens."""
        # Not every cache can be cut back (windows, recurrent states): the rows are read again.
        self.parts = [_Part(part.ids[:, : part.ids.shape[1] - steps], None) for part in self.parts]

    def _take_over(self, parts: Sequence[tuple[CachedRows, list[int]]]) -> None:
        self.parts = []
        for whole, rows in parts:
            place = [(k, row) for k, part in enumerate(whole.parts) for row in range(len(part.ids))]
            for k, wanted in groupby((place[row] for row in rows), key=lambda it: it[0]):
                self.parts.append(whole.parts[k].of([row for _, row in wanted]))


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


class _Prompt:
    """Keys and values of a prompt, and the output at its last token."""

    def __init__(self, local: LocalModel, ids: Ids, logits: bool, whole: int) -> None:
        self.length = len(ids)
        read = partial(self._read, local, list(ids), logits, whole)
        self.past, self.last = as_it_fits(local, read)

    @staticmethod
    def _read(
        local: LocalModel, ids: list[int], logits: bool, length: int
    ) -> tuple[list[list[KeysValues]], Tensor]:
        most = max(local.budget, SMALLEST)
        past: list[list[KeysValues]] = []
        for first in range(0, len(ids), most):
            run = ids[first : first + most]
            whole = Segment(0, len(run), len(run), first, (0,))
            layout = Layout((whole,), tuple(past), 0, local.layers, length)
            positions = local.tensor(range(first, first + len(run)))
            outputs = forward(local, local.tensor(run), positions, layout, logits)
            past.append(layout.cached)
        return past, outputs[-1:].clone()  # a view would keep those of all tokens


class TreeRows(KVRows):
    """Every row attends to its prompt, which is kept once, and to its own steps."""

    def _begin(self, prompts: Sequence[Ids], owners: Sequence[int], room: int) -> Tensor:
        self.whole = max(map(len, prompts)) + room
        self.read = [_Prompt(self.local, ids, self.logits, self.whole) for ids in prompts]
        self.prompts = [self.read[owner] for owner in owners]
        self.steps = KVSteps(room)
        return concatenated([prompt.last for prompt in self.read])

    def _step(self, tokens: Sequence[int]) -> Tensor:
        self.steps.looking = False
        outputs = self._read([[token] for token in tokens])
        self.steps.taken += 1
        return outputs

    def _look(self, tokens: Sequence[Sequence[int]]) -> Tensor:
        self.steps.looking = True
        return self._read(tokens)

    def _take(self, which: list[int]) -> None:
        self.steps.take(self.local.torch.tensor(which, device=self.local.device))

    def back(self, steps: int) -> None:
        """Forget each row's last tokens."""
        self.steps.taken -= steps

    def _read(self, tokens: Sequence[Sequence[int]]) -> Tensor:
        local, steps, width = self.local, self.steps, len(tokens[0])
        steps.width, steps.looked = width, []
        steps.prompts, start = [], 0
        for _, rows in groupby(self.prompts, key=id):
            stop = start + len(list(rows))
            steps.prompts.append((start, stop, self.prompts[start].past))
            start = stop
        row = [token for of_row in tokens for token in of_row]
        at = [prompt.length + steps.taken for prompt in self.prompts for _ in range(width)]
        layout = Layout(rows=steps, length=self.whole)
        return forward(local, local.tensor(row), local.tensor(at), layout, self.logits)

    def _take_over(self, parts: Sequence[tuple[TreeRows, list[int]]]) -> None:
        self.whole = parts[0][0].whole
        self.prompts = [part.prompts[row] for part, rows in parts for row in rows]
        self.steps = KVSteps.join([(part.steps, rows) for part, rows in parts])
