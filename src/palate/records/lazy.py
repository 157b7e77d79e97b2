"""Items that are made when they are looked at, so that few are held at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar, overload

T = TypeVar("T")


class Lazy(Sequence[T]):
    """So many items, each made anew from its number whenever it is asked for."""

    def __init__(self, n: int, make: Callable[[int], T]) -> None:
        self._n, self._make = n, make

    def __len__(self) -> int:
        return self._n

    @overload
    def __getitem__(self, k: int) -> T: ...
    @overload
    def __getitem__(self, k: slice) -> list[T]: ...
    def __getitem__(self, k: int | slice) -> T | list[T]:
        """Return one item, or a list of some."""
        at = range(self._n)[k]
        return [self._make(j) for j in at] if isinstance(at, range) else self._make(at)
