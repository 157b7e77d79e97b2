"""Results of a pass for each request, as columns: about thirty bytes a request."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from palate.errors import PalateError
from palate.execution.plan import WorkPlan
from palate.records import Judgement, Scores
from palate.runs import Line
from palate.runs.name_codes import NameCodes

OUTAGE, SPLIT, CAME = 1, 2, 4


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
        found = np.zeros(len(self._plan.row_starts) - 1, dtype=np.int32)
        some = np.diff(self._plan.row_starts) > 0
        first = self._plan.requests[self._plan.row_starts[:-1][some]]
        found[some] = self._parts[first]
        return found

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
