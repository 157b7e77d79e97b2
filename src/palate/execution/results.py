"""Results of a pass for each request, as columns: about thirty bytes a request."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from palate.errors import PalateError, RunError
from palate.execution.plan import PREFIX, Ints, WorkPlan
from palate.records import Judgement, Scores
from palate.runs import Line, line_at, located_lines
from palate.runs.row import NameCodes

BUFFERED = 4096
PARSED = 64


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

    def __exit__(self, *raised: object) -> None:
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
            values = fields[name]
            fields[name] = tuple(value or empty for value in values) if any(values) else ()
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


OUTAGE, BLANK, OWN, SPLIT, CAME = 1, 2, 4, 8, 16


class Results:
    """Filled group by group, in any order; read row by row."""

    def __init__(self, plan: WorkPlan) -> None:
        n = len(plan.keys)
        self._plan = plan
        self._values = np.full((n, 1), np.nan)  # a score, or a judgement's margin in each order
        self._widths = np.ones(n if plan.judged else 0, dtype=np.int8)
        self._reasons = np.full(n, -1, dtype=np.int32)
        self._names = NameCodes()
        self._flags = np.zeros(n, dtype=np.uint8)
        self._parts = np.zeros(n, dtype=np.int32)

    def put(self, requests: range, line: Line) -> None:
        """Take over the line of a group; a later one wins."""
        self._parts[requests.start : requests.stop] = line.parts
        self._flags[requests.start : requests.stop] = CAME
        if self._plan.judged:
            (k,) = requests
            self._values = _widened(self._values, len(line.values))
            self._values[k] = np.nan
            self._values[k, : len(line.values)] = _numbers(line.values)
            self._widths[k] = len(line.values)
            self._reasons[k] = self._code(line.reasons[0] if line.reasons else None)
            self._flags[k] |= OUTAGE * line.outage
            return
        self._values[requests.start : requests.stop, 0] = _numbers(line.values)
        for j, k in enumerate(requests):
            self._reasons[k] = self._code(line.reasons[j] if line.reasons else None)
            lost = line.outage and line.values[j] is None
            self._flags[k] |= OUTAGE * lost + SPLIT * bool(line.split and line.split[j])

    def scores(self, row: int) -> Scores:
        """Return the scores of a row's candidates; raises `PalateError` where one did not come."""
        requests = self._came(row)
        reasons = self._reasons[requests]
        return Scores(
            values=_read(self._values[requests, 0].tolist()),
            reasons=tuple(map(self._name, reasons.tolist())),
        )

    def judgements(self, row: int) -> list[Judgement]:
        """Return what a judge said of every two of a row's candidates, as `combinations` does."""
        judgements = []
        for k in self._came(row).tolist():
            orders = _read(self._values[k, : self._widths[k]].tolist())
            read = [order for order in orders if order is not None]
            judgements.append(
                Judgement(
                    margin=sum(read) / len(read) if len(read) == len(orders) else None,
                    orders=orders,
                    reason=self._name(int(self._reasons[k])),
                )
            )
        return judgements

    def parts_of(self, row: int) -> int:
        """Return the parts that were read of a row, after the cut to the model's window."""
        requests = self._plan.of_row(row)
        return int(self._parts[requests[0]]) if len(requests) else 0

    @property
    def numbers(self) -> NDArray[np.float64]:
        """The numbers that came so far, of each request once."""
        return np.asarray(self._values[~np.isnan(self._values)])

    @property
    def parts(self) -> NDArray[np.int32]:
        """Of each row, the parts that were read."""
        starts = self._plan.row_starts
        parts, some = np.zeros(len(starts) - 1, dtype=np.int32), np.diff(starts) > 0
        parts[some] = self._parts[self._plan.requests[starts[:-1][some]]]
        return parts

    @property
    def outages(self) -> NDArray[np.bool_]:
        """Of each row, whether the outside world failed."""
        return self._any(OUTAGE)

    @property
    def split(self) -> NDArray[np.bool_]:
        """Of each row, whether a text was longer than an embedder's window."""
        return self._any(SPLIT)

    def _any(self, flag: int) -> NDArray[np.bool_]:
        marked = (self._flags & flag)[self._plan.requests] > 0
        before = np.concatenate([[0], np.cumsum(marked)])[self._plan.row_starts]
        return np.asarray(np.diff(before) > 0)

    def _came(self, row: int) -> NDArray[np.int32]:
        requests = self._plan.of_row(row)
        if not (self._flags[requests] & CAME).all():
            raise PalateError(f"row {row} got no result")
        return requests

    def _name(self, code: int) -> str | None:
        return None if code < 0 else self._names.names[code]

    def _code(self, reason: str | None) -> int:
        return -1 if reason is None else self._names.code(reason)


def _numbers(values: Sequence[float | None]) -> list[float]:
    return [math.nan if value is None else value for value in values]


def _read(values: Sequence[float]) -> tuple[float | None, ...]:
    return tuple(None if math.isnan(value) else value for value in values)


def _widened(values: NDArray[np.float64], width: int) -> NDArray[np.float64]:
    more = width - values.shape[1]
    return np.pad(values, ((0, 0), (0, more)), constant_values=np.nan) if more > 0 else values
