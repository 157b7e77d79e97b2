"""Several models in step: each reads the same responses, behind prompts of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Self

from palate.engines.local.decoding.kv_rows import KVRows
from palate.engines.local.model import LocalModel

if TYPE_CHECKING:
    from torch import Tensor

Ids = Sequence[int]


class Member(NamedTuple):
    """A language model, and what it reads before the response of each row."""

    model: LocalModel
    prompts: Sequence[Ids]


class ModelEnsemble:
    """The rows of every member; what two members of one model read alike is read once."""

    def __init__(self, members: Sequence[Member], room: int) -> None:
        self._shared: list[_Shared] = []
        self._place: list[tuple[int, list[int]]] = []
        """Of each member, which model's rows are its own, and which of these."""
        order: dict[int, int] = {}
        for member in members:
            order.setdefault(id(member.model), len(order))
        keys: list[dict[tuple[tuple[int, ...], int], None]] = [{} for _ in order]
        for model, prompts in members:
            keys[order[id(model)]].update(
                ((tuple(ids), row), None) for row, ids in enumerate(prompts)
            )
        for model in {id(member.model): member.model for member in members}.values():
            self._shared.append(_Shared.of(model, sorted(keys[len(self._shared)]), room))
        for model, prompts in members:
            k = order[id(model)]
            at = {key: place for place, key in enumerate(sorted(keys[k]))}
            self._place.append((k, [at[tuple(ids), row] for row, ids in enumerate(prompts)]))

    def log_probabilities(self) -> list[Tensor]:
        """Return each member's log p of the next token (rows × ids), float32, on the device."""
        made = [shared.rows.each(shared.model.head.distributions) for shared in self._shared]
        return [
            made[k] if rows == list(range(len(made[k]))) else made[k][rows]
            for k, rows in self._place
        ]

    def advance(self, tokens: Sequence[int]) -> None:
        """Give each row its next token, in all models."""
        for shared in self._shared:
            shared.rows.advance([tokens[row] for row in shared.row_of])

    def back(self, steps: int) -> None:
        """Forget each row's last tokens, as `Rows.back`."""
        for shared in self._shared:
            shared.rows.back(steps)

    def of(self, rows: Sequence[int]) -> Self:
        """Return these rows, in this order, one perhaps several times; a copy."""
        copies: dict[int, list[int]] = {}
        for place, row in enumerate(rows):
            copies.setdefault(row, []).append(place)
        some = object.__new__(type(self))
        some._shared, moved = [], []
        for shared in self._shared:
            left = [(k, at) for k, row in enumerate(shared.row_of) for at in copies.get(row, ())]
            moved.append({pair: place for place, pair in enumerate(left)})
            rows_left = shared.rows.of([k for k, _ in left])
            some._shared.append(_Shared(shared.model, rows_left, [at for _, at in left]))
        some._place = [
            (k, [moved[k][mine[row], at] for at, row in enumerate(rows)]) for k, mine in self._place
        ]
        return some


class _Shared(NamedTuple):
    """The rows of one model, and which row of the members' each of them is."""

    model: LocalModel
    rows: KVRows
    row_of: list[int]

    @classmethod
    def of(cls, model: LocalModel, keys: Sequence[tuple[tuple[int, ...], int]], room: int) -> Self:
        rows = KVRows(model, [ids for ids, _ in keys], room, logits=not model.head.apart)
        return cls(model, rows, [row for _, row in keys])
