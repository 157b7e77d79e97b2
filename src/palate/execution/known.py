"""What journals hold already of a pass: where each result lies on disk, not the result itself."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, TypeVar

import numpy as np
from numpy.typing import NDArray

from palate.errors import RunError
from palate.execution.lines import picked
from palate.execution.plan import PREFIX, Ints, Plan, Source
from palate.runs import Line, line_at, located_lines

BUFFERED = 4096
PARSED = 64
OUTAGE, BLANK = 1, 2
T = TypeVar("T")


class Known:
    """Results by key, from this run's journal and from others of the same pass."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        n = len(plan.keys)
        self._paths: list[Path] = []
        self._file = np.full(n, -1, dtype=np.int32)
        self._offset = np.zeros(n, dtype=np.int64)
        self._flags = np.zeros(n, dtype=np.uint8)
        self.own = np.zeros(len(plan.work_of), dtype=bool)
        """Rows whose line, with these keys, stands in this run's journal."""
        self._sorted: Ints | None = None
        self._open: dict[int, BinaryIO] = {}
        self._parsed: OrderedDict[tuple[int, int], Line] = OrderedDict()
        self._stack = ExitStack()

    def __enter__(self) -> Known:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()
        self._open.clear()

    def read(self, path: Path, *, own: Source | None = None) -> None:
        """Take over a journal's lines of this pass; a later one wins.

        `own` is given for this run's journal: its outages count, as tried and to be tried again,
        and its rows are not written again.
        """
        self._paths.append(path)
        rows = None if own is None else _Rows(own)
        batch: list[tuple[int, Line]] = []
        for offset, line in located_lines(path):
            if line.in_pass == self.plan.id and (own is not None or not line.outage):
                batch.append((offset, line))
            if len(batch) == BUFFERED:
                self._add(batch, rows)
                batch = []
        self._add(batch, rows)

    def works(self, retry_unscored: bool) -> NDArray[np.bool_]:
        """Return which works need no computing."""
        bad = OUTAGE | BLANK if retry_unscored else OUTAGE
        usable = (self._file >= 0) & ((self._flags & bad) == 0)
        starts = self.plan.key_starts
        if not self.plan.n_works:
            return np.zeros(0, dtype=bool)
        found: NDArray[np.bool_] = np.logical_and.reduceat(usable, starts[:-1])
        return found

    def recall(self, work: int, source: Source) -> Iterator[tuple[int, Line]]:
        """Yield each row that waits for a known work with its line."""
        for row in self.plan.rows_of(work):
            places = self.plan.keys_of(row)
            there = [self._line(place) for place in places]
            if self.plan.judged:
                update = {"id": source.id(row), "in_pass": self.plan.id, "last": False}
                yield row, there[0].model_copy(update=update)
                continue
            at = [self._at(line, place) for line, place in zip(there, places, strict=True)]
            every = range(len(at))
            yield row, Line(
                id=source.id(row), in_pass=self.plan.id,
                keys=tuple(line.keys[j] for line, j in zip(there, at, strict=True)),
                values=tuple(line.values[j] for line, j in zip(there, at, strict=True)),
                reasons=picked([_of(line.reasons, j) for line, j in zip(there, at, strict=True)],
                               every),
                raw=picked([_of(line.raw, j) for line, j in zip(there, at, strict=True)], every),
                split=picked([bool(_of(line.split, j)) for line, j in zip(there, at, strict=True)],
                             every),
                parts=there[0].parts,
            )  # fmt: skip

    def _add(self, batch: Sequence[tuple[int, Line]], rows: _Rows | None) -> None:
        if not batch or not len(self.plan.keys):
            return
        flat = [(i, j) for i, (_, line) in enumerate(batch) for j in range(len(line.keys))]
        found = self._find([batch[i][1].keys[j] for i, j in flat])
        places: dict[int, list[int]] = {}
        for (i, j), place in zip(flat, found.tolist(), strict=True):
            offset, line = batch[i]
            places.setdefault(i, []).append(place)
            whole = self.plan.judged or len(line.keys) == len(line.values)
            if place < 0 or not whole:
                continue
            values = line.values if self.plan.judged else (line.values[j],)
            self._file[place], self._offset[place] = len(self._paths) - 1, offset
            self._flags[place] = OUTAGE * line.outage + BLANK * (None in values)
        if rows is not None:
            for i, (_, line) in enumerate(batch):
                for row in rows.named(line.id):
                    if self.plan.keys_of(row) == places.get(i):
                        self.own[row] = True

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

    def _line(self, place: int) -> Line:
        number, offset = int(self._file[place]), int(self._offset[place])
        line = self._parsed.get((number, offset))
        if line is None:
            if number not in self._open:
                self._open[number] = self._stack.enter_context(self._paths[number].open("rb"))
            line = line_at(self._open[number], offset, self._paths[number])
            self._parsed[number, offset] = line
            if len(self._parsed) > PARSED:
                self._parsed.popitem(last=False)
        return line

    def _at(self, line: Line, place: int) -> int:
        raw = self.plan.keys[place : place + 1].tobytes().hex()
        return next(j for j, key in enumerate(line.keys) if key.startswith(raw))


def _of(items: Sequence[T], position: int) -> T | None:
    return items[position] if items else None


class _Rows:
    """Rows by id, in sixteen bytes each."""

    def __init__(self, source: Source) -> None:
        self._source = source
        n = len(source)
        hashes = np.fromiter((hash(source.id(row)) for row in range(n)), dtype=np.int64, count=n)
        self._order = np.argsort(hashes, kind="stable")
        self._hashes = hashes[self._order]

    def named(self, name: str) -> Iterator[int]:
        at = int(np.searchsorted(self._hashes, hash(name)))
        while at < len(self._hashes) and self._hashes[at] == hash(name):
            row = int(self._order[at])
            if self._source.id(row) == name:
                yield row
            at += 1
