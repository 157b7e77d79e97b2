"""What a pass gave for each row, as columns: about thirty bytes a row."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from palate.errors import PalateError

OUTAGE, SPLIT = 1, 2


class Result(NamedTuple):
    """One row's: the scores of its candidates, or a judgement's margins in each order."""

    values: tuple[float | None, ...]
    reasons: tuple[str | None, ...]
    parts: int


class Results:
    """Filled row by row, in any order."""

    def __init__(self, n: int) -> None:
        self._values = np.full((n, 2), np.nan)
        self._counts = np.zeros(n, dtype=np.int8)  # values of each row; 0: nothing came yet
        self._reasons = np.full((n, 2), -1, dtype=np.int32)
        self._names: list[str] = []
        self._codes: dict[str, int] = {}
        self._flags = np.zeros(n, dtype=np.uint8)
        self.parts = np.zeros(n, dtype=np.int32)
        """Parts the computation read, after the cut to the model's window."""

    def put(
        self,
        row: int,
        values: Sequence[float | None],
        reasons: Sequence[str | None],
        *,
        split: bool,
        outage: bool,
        parts: int,
    ) -> None:
        """Take over a row's result; a later one wins."""
        if len(values) > self._values.shape[1]:
            self._widen(len(values))
        self._values[row, : len(values)] = [np.nan if v is None else v for v in values]
        self._counts[row] = len(values)
        self._reasons[row] = -1
        if reasons:
            self._reasons[row, : len(reasons)] = [self._code(reason) for reason in reasons]
        self._flags[row] = OUTAGE * outage + SPLIT * split
        self.parts[row] = parts

    def __getitem__(self, row: int) -> Result:
        """Return a row's result; raises `PalateError` where none came."""
        count = int(self._counts[row])
        if not count:
            raise PalateError(f"row {row} got no result")
        values = self._values[row, :count].tolist()
        codes = self._reasons[row].tolist()
        named = tuple(None if code < 0 else self._names[code] for code in codes)
        return Result(
            tuple(None if math.isnan(value) else value for value in values),
            named if any(named) else (),
            int(self.parts[row]),
        )

    @property
    def outages(self) -> np.typing.NDArray[np.bool_]:
        """Where the outside world failed."""
        return (self._flags & OUTAGE) > 0

    @property
    def split(self) -> np.typing.NDArray[np.bool_]:
        """Where a text was longer than an embedder's window."""
        return (self._flags & SPLIT) > 0

    def _code(self, reason: str | None) -> int:
        if reason is None:
            return -1
        code = self._codes.setdefault(reason, len(self._names))
        if code == len(self._names):
            self._names.append(reason)
        return code

    def _widen(self, width: int) -> None:
        more = width - self._values.shape[1]
        self._values = np.pad(self._values, ((0, 0), (0, more)), constant_values=np.nan)
        self._reasons = np.pad(self._reasons, ((0, 0), (0, more)), constant_values=-1)
