"""Results that journals hold of a pass: where each lies on disk, not the result itself."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from palate.errors import RunError
from palate.execution.plan import PREFIX, Ints, WorkPlan
from palate.runs import Line, line_at, located_lines

BUFFERED = 4096
PARSED = 64
OUTAGE, BLANK, OWN = 1, 2, 4


class ResultIndex:
    """Results by key, from this run's journal and from others of the same pass."""

    def __init__(self, plan: WorkPlan) -> None:
        self.plan = plan
        n = len(plan.keys)
        self._paths: list[Path] = []
        self._file = np.full(n, -1, dtype=np.int32)
        self._offset = np.zeros(n, dtype=np.int64)
        self._flags = np.zeros(n, dtype=np.uint8)
        self._sorted: Ints | None = None
        self._open: dict[int, BinaryIO] = {}
        self._parsed: OrderedDict[tuple[int, int], Line] = OrderedDict()
        self._stack = ExitStack()

    def __enter__(self) -> ResultIndex:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()
        self._open.clear()

    def read(self, path: Path, *, of_this_run: bool = False) -> None:
        """Take over a journal's lines of this pass; a later one wins.

        Of this run's journal (`own`) outages count, as tried and to be tried again, and what it
        holds is not written again.
        """
        self._paths.append(path)
        batch: list[tuple[int, Line]] = []
        for offset, line in located_lines(path):
            if line.in_pass == self.plan.id and (of_this_run or not line.outage):
                batch.append((offset, line))
            if len(batch) == BUFFERED:
                self._add(batch, of_this_run)
                batch = []
        self._add(batch, of_this_run)

    def groups(self, retry_unscored: bool) -> NDArray[np.bool_]:
        """Return which groups need no computing."""
        if not self.plan.n_groups:
            return np.zeros(0, dtype=bool)
        bad = OUTAGE | BLANK if retry_unscored else OUTAGE
        usable = (self._file >= 0) & ((self._flags & bad) == 0)
        return np.asarray(np.logical_and.reduceat(usable, self.plan.group_starts[:-1]))

    def recall(self, group: int, row: str) -> tuple[Line, bool]:
        """Return the line of a known group, and whether this run's journal holds all of it.

        `row` is the id that the line gets.
        """
        requests = self.plan.of_group(group)
        lines = [self._line(k) for k in requests]
        of_this_run = bool((self._flags[requests.start : requests.stop] & OWN).all())
        same: dict[str, Any] = {"id": row, "last": False}
        if self.plan.judged:
            return lines[0].model_copy(update=same), of_this_run
        at = [self._at(line, k) for line, k in zip(lines, requests, strict=True)]
        fields = {
            name: tuple(_of(getattr(line, name), j) for line, j in zip(lines, at, strict=True))
            for name in ("keys", "values", "reasons", "raw", "split")
        }
        for name, empty in (("reasons", None), ("raw", None), ("split", False)):
            fields[name] = tuple(it or empty for it in fields[name]) if any(fields[name]) else ()
        return lines[0].model_copy(update={**fields, **same, "outage": False}), of_this_run

    def _add(self, batch: Sequence[tuple[int, Line]], of_this_run: bool) -> None:
        if not batch or not len(self.plan.keys):
            return
        flat = [(i, j) for i, (_, line) in enumerate(batch) for j in range(len(line.keys))]
        found = self._find([batch[i][1].keys[j] for i, j in flat])
        for (i, j), place in zip(flat, found.tolist(), strict=True):
            offset, line = batch[i]
            if place < 0 or not (self.plan.judged or len(line.keys) == len(line.values)):
                continue
            blank = None in (line.values if self.plan.judged else (line.values[j],))
            self._file[place], self._offset[place] = len(self._paths) - 1, offset
            self._flags[place] = (
                OUTAGE * (line.outage and blank) + BLANK * blank + OWN * of_this_run
            )

    def _find(self, keys: Sequence[str]) -> NDArray[np.int64]:
        # Where each key stands in the plan; -1 where it does not.
        if self._sorted is None:
            self._sorted = np.argsort(self.plan.keys).astype(np.int32)
        try:
            wanted = np.array([bytes.fromhex(key)[:PREFIX] for key in keys], dtype=f"S{PREFIX}")
        except ValueError as error:
            raise RunError(
                f"{self._paths[-1]}: a key that is none of this version's; choose another -o"
            ) from error
        place = np.searchsorted(self.plan.keys, wanted, sorter=self._sorted)
        place = self._sorted[np.minimum(place, len(self._sorted) - 1)].astype(np.int64)
        return np.where(self.plan.keys[place] == wanted, place, -1)

    def _line(self, request: int) -> Line:
        number, offset = int(self._file[request]), int(self._offset[request])
        line = self._parsed.get((number, offset))
        if line is None:
            if number not in self._open:
                self._open[number] = self._stack.enter_context(self._paths[number].open("rb"))
            line = line_at(self._open[number], offset, self._paths[number])
            self._parsed[number, offset] = line
            if len(self._parsed) > PARSED:
                self._parsed.popitem(last=False)
        return line

    def _at(self, line: Line, request: int) -> int:
        raw = self.plan.keys[request : request + 1].tobytes().hex()
        return next(j for j, key in enumerate(line.keys) if key.startswith(raw))


def _of(items: Sequence[Any], position: int) -> Any:
    return items[position] if items else None
