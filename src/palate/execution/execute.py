"""One pass: what is not known yet is computed, unit by unit, and journalled as it comes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from palate.execution.known import Known
from palate.execution.lines import lines_of
from palate.execution.plan import Plan, Source
from palate.execution.results import Results
from palate.execution.runner import Runner, Task, Unit
from palate.execution.works import Ticket, Work, build
from palate.runs import Journal, Line

Advance = Callable[[int], None]
WRITTEN_TOGETHER = 1024
CHARACTERS_PER_UNIT = 32_000_000


@dataclass
class _Pending:
    """A unit that is being computed; of one whose numbers hang together, the lines so far."""

    works: list[Ticket]
    missing: int
    lines: list[list[tuple[int, Line]]] = field(default_factory=list)


class Pass:
    """One pass over all rows, from a plan to each row's result."""

    def __init__(
        self,
        task: Task,
        plan: Plan,
        source: Source,
        known: Known,
        journal: Journal | None,
        *,
        retry_unscored: bool = False,
        advance: Advance = lambda n: None,
    ) -> None:
        self.task, self.plan, self.source = task, plan, source
        self.known, self.journal, self.advance = known, journal, advance
        self.results = Results(len(plan.work_of))
        self._is_known = known.works(retry_unscored)
        self._pending: dict[int, _Pending] = {}

    def run(self, runner: Runner) -> Results:
        """Compute what is missing and recall the rest.

        A line that this run's journal has already is not written again, unless its work was
        computed anew. Where numbers depend on their batch, the whole batch is computed again.
        """
        for came in runner.run(self.task, self._units(runner)):
            unit = self._pending[came.unit]
            work = unit.works[came.position]
            lines = list(lines_of(self.plan, self.source, work, came.result))
            unit.missing -= 1
            if not unit.missing:
                del self._pending[came.unit]
            if self.plan.exact:  # each result is final by itself
                self._take(lines)
                self.advance(len(lines))
                continue
            self.advance(len(lines))  # though the unit is kept only when it is whole
            unit.lines[came.position] = lines
            if not unit.missing:
                self._take([line for several in unit.lines for line in several])
        return self.results

    def _units(self, runner: Runner) -> Iterator[Unit]:
        number = 0
        for works in self._batches(runner):
            ready = self._is_known[works]
            again = works[~ready] if self.plan.exact else works[: 0 if ready.all() else None]
            if ready.any() and (self.plan.exact or ready.all()):
                self._recall(works[ready].tolist())
            if len(again):
                for unit in self._built(number, again.tolist()):
                    number = unit.number + 1
                    yield unit

    def _batches(self, runner: Runner) -> Iterator[np.typing.NDArray[np.int64]]:
        cuts = self.plan.cuts.tolist()
        if self.plan.exact and self.plan.n_works:
            step = runner.works_per_unit(self.plan.n_works)
            cuts = [*range(0, self.plan.n_works, step), self.plan.n_works]
        for start, stop in zip(cuts[:-1], cuts[1:], strict=True):
            yield np.arange(start, stop)

    def _built(self, number: int, works: Sequence[int]) -> Iterator[Unit]:
        # An exact contestant's unit ends early where its texts are long.
        held, characters = [], 0
        for work in build(self.task.computes, self.plan, self.source, works):
            held.append(work)
            characters += _characters(work)
            if self.plan.exact and characters > CHARACTERS_PER_UNIT:
                yield self._start(number, held)
                number, held, characters = number + 1, [], 0
        if held:
            yield self._start(number, held)

    def _start(self, number: int, works: list[Work]) -> Unit:
        self._pending[number] = _Pending(
            [work.ticket for work in works], len(works), [[] for _ in works]
        )
        return Unit(number, tuple(work.slate for work in works))

    def _recall(self, works: Sequence[int]) -> None:
        fresh: list[Line] = []
        for work in works:
            for row, line in self.known.recall(work, self.source):
                self._put(row, line)
                if not self.known.own[row]:
                    fresh.append(line)
                self.advance(1)
            if len(fresh) >= WRITTEN_TOGETHER:
                self._write(fresh)
                fresh = []
        self._write(fresh)

    def _take(self, lines: Sequence[tuple[int, Line]]) -> None:
        for row, line in lines:
            self._put(row, line)
        self._write([line for _, line in lines])

    def _put(self, row: int, line: Line) -> None:
        self.results.put(
            row, line.values, line.reasons,
            split=any(line.split), outage=line.outage, parts=line.parts,
        )  # fmt: skip

    def _write(self, lines: Sequence[Line]) -> None:
        if self.journal is not None and lines:
            self.journal.append(lines)


def _characters(work: Work) -> int:
    slate = work.slate
    texts = [m.content for m in slate.question] + [p.text for p in slate.shown]
    return sum(map(len, texts)) + sum(map(len, slate.candidates))
