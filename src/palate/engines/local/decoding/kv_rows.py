"""Rows that go on from prompts, a token at a time; a prompt is read once for all of its rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Self

from palate.engines.local.decoding.cached_rows import CachedRows
from palate.engines.local.decoding.tree_rows import TreeRows
from palate.engines.local.model import LocalModel
from palate.engines.local.threads import one_thread

if TYPE_CHECKING:
    from torch import Tensor

Ids = Sequence[int]


class KVRows:
    """Continuations of prompts side by side, each as long as every other.

    Equal prompts that stand together are read once. Outputs are hidden states, or the model's own
    logits where its head cannot be had apart.

    Args:
        local: the model; it must stay loaded meanwhile (`in_use`).
        prompts: token ids that each row goes on from.
        room: tokens that a row may grow by.
        logits: take the model's own logits as outputs.
    """

    def __init__(
        self,
        local: LocalModel,
        prompts: Sequence[Ids],
        room: int,
        *,
        logits: bool = False,
    ) -> None:
        self.local = local
        reach, longest = local.read_mode.reach, max(map(len, prompts))
        tree = local.read_mode.tree and (reach is None or longest + room <= reach)
        tree &= not local.sides.crossed(local.reference, min(map(len, prompts)), longest + room)
        kind: type[TreeRows] | type[CachedRows] = TreeRows if tree else CachedRows
        number = {ids: k for k, ids in enumerate(dict.fromkeys(map(tuple, prompts)))}
        owners = [number[tuple(ids)] for ids in prompts]
        with local.torch.inference_mode(), one_thread(local.torch, local.device):
            self._rows: Any = kind(local, list(number), owners, room, logits)
            self._last: Tensor = self._rows.first()
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
