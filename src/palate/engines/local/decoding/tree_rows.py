"""Rows of a model that reads trees: each attends to its prompt, kept once, and its own steps."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from palate.engines.local.attention import KeysValues, KVSteps, Layout
from palate.engines.local.forward import forward
from palate.engines.local.memory import SMALLEST, halve
from palate.engines.local.model import LocalModel
from palate.engines.local.tree import Segment

if TYPE_CHECKING:
    from torch import Tensor

Ids = Sequence[int]


class _Prompt:
    """Keys and values of a prompt, and the output at its last token."""

    def __init__(self, local: LocalModel, ids: Ids, logits: bool, whole: int) -> None:
        self.length = len(ids)
        while True:
            try:
                self.past, self.last = self._read(local, list(ids), logits, whole)
                break
            except (RuntimeError, MemoryError) as error:
                halve(local, error)

    @staticmethod
    def _read(
        local: LocalModel, ids: list[int], logits: bool, length: int
    ) -> tuple[list[list[KeysValues]], Tensor]:
        torch, most = local.torch, max(local.budget, SMALLEST)
        past: list[list[KeysValues]] = []
        for first in range(0, len(ids), most):
            run = ids[first : first + most]
            whole = Segment(0, len(run), len(run), first, (0,))
            layout = Layout((whole,), tuple(past), keep=0, layers=local.layers, length=length)
            tokens = torch.tensor([run], device=local.device)
            positions = torch.arange(first, first + len(run), device=local.device)[None]
            outputs = forward(local, tokens, positions, layout, logits)
            past.append(layout.cached)
        return past, outputs[-1:].clone()  # a view would keep those of all tokens


class TreeRows:
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
        self.whole = max(map(len, prompts)) + room
        self.read = [_Prompt(local, ids, logits, self.whole) for ids in prompts]
        self.prompts = [self.read[owner] for owner in owners]
        self.steps = KVSteps(room)

    def first(self) -> Tensor:
        """Return the outputs of each prompt."""
        joined: Tensor = self.local.torch.cat([prompt.last for prompt in self.read])
        return joined

    def step(self, tokens: Sequence[int]) -> Tensor:
        """Return the outputs at each row's next token."""
        self.steps.looking = False
        outputs = self._read([[token] for token in tokens])
        self.steps.taken += 1
        return outputs

    def look(self, tokens: Sequence[Sequence[int]]) -> Tensor:
        """Return the outputs (rows × k × width) at other next tokens of each row."""
        self.steps.looking = True
        outputs = self._read(tokens)
        looked: Tensor = outputs.unflatten(0, (len(tokens), -1))
        return looked

    def take(self, which: Sequence[int]) -> None:
        """Go on with one of the tokens just looked at of each row."""
        self.steps.take(self.local.torch.tensor(list(which), device=self.local.device))

    def back(self, steps: int) -> None:
        """Forget each row's last tokens."""
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
        layout = Layout(rows=steps, length=self.whole)
        return forward(
            self.local,
            row.to(self.local.device),
            positions.to(self.local.device),
            layout,
            self.logits,
        )

    @staticmethod
    def join(parts: Sequence[tuple[TreeRows, list[int]]]) -> TreeRows:
        """Return chosen rows of several, one after another."""
        first = parts[0][0]
        joined = object.__new__(TreeRows)
        joined.local, joined.logits, joined.whole = first.local, first.logits, first.whole
        joined.prompts = [part.prompts[row] for part, rows in parts for row in rows]
        joined.steps = KVSteps.join([(part.steps, rows) for part, rows in parts])
        return joined
