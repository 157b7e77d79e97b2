"""Columns that are filled value by value and held as compact arrays."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")
CHUNK = 8192


class ColumnBuilder(Generic[T]):
    """Values on their way into one array; what waits for it is never more than a chunk."""

    def __init__(self, dtype: str) -> None:
        self._dtype = dtype
        self._chunks: list[NDArray[Any]] = []
        self._waiting: list[T | None] = []

    def add(self, *values: T | None) -> None:
        """Take values; None is NaN among numbers."""
        self._waiting += values
        if len(self._waiting) >= CHUNK:
            self._pack()

    def array(self) -> NDArray[Any]:
        """Return all values; bytes are as wide as the longest."""
        if self._waiting or not self._chunks:
            self._pack()
        whole, self._chunks = np.concatenate(self._chunks), []
        return whole

    def _pack(self) -> None:
        made = np.empty(len(self._waiting), dtype=self._dtype) if self._dtype == "O" else None
        if made is not None:  # a list of equal lengths would become two dimensions
            made[:] = self._waiting
        else:
            made = np.array(self._waiting, dtype=self._dtype)
        self._chunks.append(made)
        self._waiting = []


def by_row(numbers: NDArray[np.float64], counts: NDArray[np.int8]) -> NDArray[np.float64]:
    """Return so many of the numbers for each row, NaN where one has fewer than the longest."""
    width = int(counts.max()) if counts.size else 0
    made = np.full((len(counts), width), np.nan)
    made[np.arange(width) < counts[:, None]] = numbers
    return made


class NameCodes:
    """Few different texts, numbered in order of appearance."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self._codes: dict[str, int] = {}

    def code(self, name: str) -> int:
        """Return the number of a name, a new one where it has none yet."""
        code = self._codes.setdefault(name, len(self.names))
        if code == len(self.names):
            self.names.append(name)
        return code
