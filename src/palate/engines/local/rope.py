"""Rotary positions whose factors depend on how long a sequence is (LongRoPE, dynamic NTK).

transformers takes the longest position of a pass for all that is in it, and some models remember
it. Here a sequence gets the factors of its own length, whatever is read beside it, before it or in
how many pieces.
"""

from __future__ import annotations

import inspect
import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from palate.engines.local.attention import length_of_layout

if TYPE_CHECKING:
    import torch

FAR = 2**20
"""No model's factors are known to change beyond so many tokens."""
Rotary = Callable[["torch.Tensor", "torch.Tensor"], Any]


class Sides(NamedTuple):
    """Which lengths share their factors: all up to `limit`, and beyond it all or none."""

    limit: int = FAR
    each: bool = False
    """Beyond the limit every length has factors of its own."""

    def of(self, length: int) -> int:
        """Return the same number for lengths that share their factors.

        >>> [Sides(4096).of(n) for n in (1, 4096, 4097, 5000)]
        [0, 0, 4097, 4097]
        """
        if length <= self.limit:
            return 0
        return length if self.each else self.limit + 1

    def apart(self, lengths: Sequence[int]) -> Iterable[list[int]]:
        """Return the positions of lengths that share their factors, the longest apart at the end.

        >>> list(Sides(4096).apart([10, 5000, 20]))
        [[0, 2], [1]]
        """
        sides: dict[int, list[int]] = {}
        for k, length in enumerate(lengths):
            sides.setdefault(self.of(length), []).append(k)
        return [sides[side] for side in sorted(sides)]

    def crossed(self, name: object, shortest: int, longest: int) -> bool:
        """Tell whether factors change while a sequence grows, and say so."""
        if self.of(shortest) == self.of(longest):
            return False
        logging.getLogger("palate").warning(
            "%s: the factors of its positions change beyond %d tokens; a reply that grows past it "
            "is read again there, and scored whole it has other log-probabilities",
            name,
            self.limit,
        )
        return True


def find_sides(model: Any, torch: Any) -> Sides:
    """Return which lengths share their factors, asked of the model's own modules.

    Modules whose factors depend on the length are changed to take them from the length of the
    sequence that is read (`Layout.length`), or else of the pass.
    """
    limit, by_length = FAR, False
    for module in model.modules():
        for rotary in _rotaries(module):
            near = _limit(rotary, torch)
            if near is None:
                continue
            limit = min(limit, near)
            by_length |= not _alike(rotary, torch, near + 1, FAR)
            _by_length(module, torch)
    return Sides(limit, by_length)


def _rotaries(module: Any) -> list[Rotary]:
    # One for each kind of layer, where a module serves several.
    if "otary" not in type(module).__name__:
        return []
    parameters = inspect.signature(module.forward).parameters
    if "position_ids" not in parameters:
        return []
    kinds = sorted(set(getattr(module, "layer_types", ()))) if "layer_type" in parameters else []
    options: list[dict[str, Any]] = [{"layer_type": kind} for kind in kinds] or [{}]
    return [partial(_call, module, more) for more in options]


def _call(module: Any, more: dict[str, Any], x: torch.Tensor, positions: torch.Tensor) -> Any:
    return module(x, position_ids=positions, **more)


def _limit(rotary: Rotary, torch: Any) -> int | None:
    """Return the greatest length with the factors of the shortest; None where all have them."""
    try:
        if _alike(rotary, torch, 4, FAR):
            return None
    except Exception:  # one of images, or of other arguments: it is called as the model calls it
        return None
    low, high = 4, FAR
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _alike(rotary, torch, 4, middle) else (low, middle)
    return low


def _alike(rotary: Rotary, torch: Any, one: int, other: int) -> bool:
    results = []
    for length in (one, other):
        rotary(torch.zeros(1, 1, 1), torch.tensor([[0]]))  # some remember how far they read
        outputs = rotary(torch.zeros(1, 1, 1), torch.tensor([[1, 2, 3, length - 1]]))
        results.append([it[..., :3, :] for it in _tensors(outputs)])
    rotary(torch.zeros(1, 1, 1), torch.tensor([[0]]))
    return all(torch.equal(a, b) for a, b in zip(*results, strict=True))


def _tensors(outputs: Any) -> Sequence[Any]:
    return outputs if isinstance(outputs, tuple) else (outputs,)


def _by_length(module: Any, torch: Any) -> None:
    if hasattr(module.forward, "by_length"):  # of another kind of layer
        return
    plain, lock = module.forward, threading.Lock()

    def forward(x: torch.Tensor, position_ids: torch.Tensor, *args: Any, **more: Any) -> Any:
        length = length_of_layout() or int(position_ids.max()) + 1
        far = torch.full_like(position_ids[..., :1], length - 1)
        with lock:  # the factors of a pass are kept in the module, which threads share
            plain(x, torch.zeros_like(far), *args, **more)
            outputs = plain(x, torch.cat([position_ids, far], dim=-1), *args, **more)
        cut = tuple(it[..., :-1, :] for it in _tensors(outputs))
        return cut if isinstance(outputs, tuple) else cut[0]

    forward.by_length = True  # type: ignore[attr-defined]
    module.forward = forward
