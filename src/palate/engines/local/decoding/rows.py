"""Rows that go on from prompts, a token at a time; a prompt is read once for all of its rows."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, Protocol, Self

from palate.engines.local.attention import KeysValues, Layout, Steps
from palate.engines.local.forward import forward
from palate.engines.local.memory import SMALLEST, halve
from palate.engines.local.model import LocalModel
from palate.engines.local.threads import one_thread
from palate.engines.local.tree import Segment

if TYPE_CHECKING:
    from torch import Tensor

Ids = Sequence[int]


class Rows:
    """Continuations of prompts side by side, each as long as every other.

    Row r goes on from prompt `owners[r]`; rows of one prompt stand together. Its outputs are hidden
    states, or the model's own logits where its head cannot be had apart.

    Args:
        local: the model; it must stay loaded meanwhile (`in_use`).
        prompts: token ids, no two alike.
        owners: of each row.
        room: tokens that a row may grow by.
        logits: take the model's own logits as outputs.
    """

    def __init__(
        self,
        local: LocalModel,
        prompts: Sequence[Ids],
        owners: Sequence[int],
        room: int,
        *,
        logits: bool = False,
    ) -> None:
        self.local = local
        reach, longest = local.read_mode.reach, max(map(len, prompts))
        tree = local.read_mode.tree and (reach is None or longest + room <= reach)
        kind: type[_Tree] | type[_Whole] = _Tree if tree else _Whole
        with local.torch.inference_mode(), one_thread(local.torch, local.device):
            self._rows: Any = kind(local, prompts, owners, room, logits)
            self._last: Tensor = self._rows.first()
        self._alike: list[int] | None = list(owners)

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
        with self.local.torch.inference_mode(), one_thread(self.local.torch, self.local.device):
            self._last, self._alike = self._rows.step(tokens), None

    def look(self, tokens: Sequence[Sequence[int]]) -> Tensor:
        """Return the outputs (rows × k × width) that k other next tokens of each row would have."""
        with self.local.torch.inference_mode(), one_thread(self.local.torch, self.local.device):
            looked: Tensor = self._rows.look(tokens)
        self._looked = looked
        return looked

    def take(self, which: Sequence[int]) -> None:
        """Go on with one of the tokens just looked at, by its number, of each row."""
        with self.local.torch.inference_mode():
            self._rows.take(which)
            self._last, self._alike = self._looked[range(len(which)), list(which)], None

    def back(self, steps: int) -> None:
        """Forget each row's last tokens; outputs are there again after the next `advance`."""
        self._rows.back(steps)

    def of(self, rows: Sequence[int]) -> Self:
        """Return these rows, in this order, one perhaps several times; a copy."""
        return self.join([(self, rows)])

    @classmethod
    def join(cls, parts: Sequence[tuple[Self, Sequence[int]]]) -> Self:
        """Return chosen rows of several, one after another; all are equally long."""
        first = parts[0][0]
        joined = object.__new__(cls)
        joined.local = first.local
        with first.local.torch.inference_mode():
            joined._rows = first._rows.join([(part._rows, list(rows)) for part, rows in parts])
            outputs = [it.outputs[list(rows)] for it, rows in parts]
            joined._last, joined._alike = first.local.torch.cat(outputs), None
        return joined


class _Backend(Protocol):
    """How rows are read."""

    def first(self) -> Tensor: ...

    def step(self, tokens: Sequence[int]) -> Tensor: ...

    def look(self, tokens: Sequence[Sequence[int]]) -> Tensor: ...

    def take(self, which: Sequence[int]) -> None: ...

    def back(self, steps: int) -> None: ...


class _Prompt:
    """Keys and values of a prompt, and the output at its last token."""

    def __init__(self, local: LocalModel, ids: Ids, logits: bool) -> None:
        self.length = len(ids)
        while True:
            try:
                self.past, self.last = self._read(local, list(ids), logits)
                break
            except (RuntimeError, MemoryError) as error:
                halve(local, error)

    @staticmethod
    def _read(
        local: LocalModel, ids: list[int], logits: bool
    ) -> tuple[list[list[KeysValues]], Tensor]:
        torch, most = local.torch, max(local.budget, SMALLEST)
        past: list[list[KeysValues]] = []
        for first in range(0, len(ids), most):
            run = ids[first : first + most]
            whole = Segment(0, len(run), len(run), first, (0,))
            layout = Layout((whole,), tuple(past), keep=0, layers=local.layers)
            tokens = torch.tensor([run], device=local.device)
            positions = torch.arange(first, first + len(run), device=local.device)[None]
            outputs = forward(local, tokens, positions, layout, logits)
            past.append(layout.cached)
        return past, outputs[-1:].clone()  # a view would keep those of all tokens


class _Tree:
    """Every row attends to its prompt, which is kept once, and to its own steps."""

    def __init__(
        self,
        local: LocalModel,
        prompts: Sequence[Ids],
        owners: Sequence[int],
        room: int,
        logits: bool,
    ) -> None:
        self.local, self.logits = local, logits
        self.read = [_Prompt(local, ids, logits) for ids in prompts]
        self.prompts = [self.read[owner] for owner in owners]
        self.steps = Steps(room)

    def first(self) -> Tensor:
        joined: Tensor = self.local.torch.cat([prompt.last for prompt in self.read])
        return joined

    def step(self, tokens: Sequence[int]) -> Tensor:
        self.steps.looking = False
        outputs = self._read([[token] for token in tokens])
        self.steps.taken += 1
        return outputs

    def look(self, tokens: Sequence[Sequence[int]]) -> Tensor:
        self.steps.looking = True
        outputs = self._read(tokens)
        looked: Tensor = outputs.unflatten(0, (len(tokens), -1))
        return looked

    def take(self, which: Sequence[int]) -> None:
        self.steps.take(self.local.torch.tensor(list(which), device=self.local.device))

    def back(self, steps: int) -> None:
        self.steps.taken -= steps

    def _read(self, tokens: Sequence[Sequence[int]]) -> Tensor:
        torch, steps, width = self.local.torch, self.steps, len(tokens[0])
        steps.width, steps.looked = width, []
        steps.prompts, start = [], 0
        for _, rows in groupby(self.prompts, key=id):
            stop = start + len(list(rows))
            steps.prompts.append((start, stop, self.prompts[start].past))
            start = stop
        row = torch.tensor([[token for of_row in tokens for token in of_row]])
        at = [prompt.length + steps.taken for prompt in self.prompts for _ in range(width)]
        positions = torch.tensor([at])
        layout = Layout(rows=steps)
        return forward(
            self.local, row.to(self.local.device), positions.to(self.local.device), layout,
            self.logits,
        )  # fmt: skip

    @staticmethod
    def join(parts: Sequence[tuple[_Tree, list[int]]]) -> _Tree:
        first = parts[0][0]
        joined = object.__new__(_Tree)
        joined.local, joined.logits = first.local, first.logits
        joined.prompts = [part.prompts[row] for part, rows in parts for row in rows]
        joined.steps = Steps.join([(part.steps, rows) for part, rows in parts])
        return joined


class _Whole:
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
        rows: dict[int, Tensor] = {}
        for owner, part in zip(self.owners, self.parts, strict=True):
            rows[owner] = self._run(part, part.ids)[:1]
        joined: Tensor = self.local.torch.cat([rows[owner] for owner in sorted(rows)])
        return joined

    def step(self, tokens: Sequence[int]) -> Tensor:
        return self._step(self.parts, list(tokens))

    def _step(self, parts: Sequence[_Part], tokens: list[int]) -> Tensor:
        torch, outputs = self.local.torch, []
        for part in parts:
            n = len(part.ids)
            more = torch.tensor(tokens[:n], device=self.local.device)[:, None]
            del tokens[:n]
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
        width, at = len(tokens[0]), 0
        self._looked = []
        for part in self.parts:
            self._looked.append(
                part.of([row for row in range(len(part.ids)) for _ in range(width)])
            )
            at += len(part.ids)
        flat = [token for of_row in tokens for token in of_row]
        looked: Tensor = self._step(self._looked, flat).unflatten(0, (at, width))
        return looked

    def take(self, which: Sequence[int]) -> None:
        left, width = list(which), len(self._looked[0].ids) // len(self.parts[0].ids)
        for k, part in enumerate(self.parts):
            chosen = left[: len(part.ids)]
            del left[: len(part.ids)]
            self.parts[k] = self._looked[k].of([r * width + c for r, c in enumerate(chosen)])

    def back(self, steps: int) -> None:
        # Not every cache can be cut back (windows, recurrent states): the rows are read again.
        self.parts = [_Part(part.ids[:, :-steps], None) for part in self.parts]

    @staticmethod
    def join(parts: Sequence[tuple[_Whole, list[int]]]) -> _Whole:
        first = parts[0][0]
        joined = object.__new__(_Whole)
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
