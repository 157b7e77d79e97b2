"""One pass: what is not known yet is computed, unit by unit, and journalled as it comes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from palate.errors import UsageError
from palate.execution.plan import RowSource, WorkPlan
from palate.execution.request_group import RequestGroup, build, line_of
from palate.execution.result_index import ResultIndex
from palate.execution.results import Results
from palate.execution.runner import Batch, Runner, ScorerJob
from palate.execution.shard import Shard
from palate.records import Prepared, info_of
from palate.runs import Journal, Line

Advance = Callable[[int], None]
WRITTEN_TOGETHER = 1024
ENOUGH_ROWS = 200
"""Computed rows after which a model that gives all of them one score is stopped."""
CHARACTERS_PER_UNIT = 32_000_000


@dataclass
class _Pending:
    """A unit that is being computed; of one whose numbers hang together, the lines so far."""

    groups: list[RequestGroup]
    missing: int
    lines: list[tuple[RequestGroup, Line]] = field(default_factory=list)


class Pass:
    """One pass over all rows, or those of a shard, from a plan to each request's result."""

    def __init__(
        self,
        task: ScorerJob,
        plan: WorkPlan,
        source: RowSource,
        known: ResultIndex,
        journal: Journal | None,
        *,
        retry_unscored: bool = False,
        advance: Advance = lambda n: None,
        shard: Shard | None = None,
    ) -> None:
        self.task, self.plan, self.source = task, plan, source
        self.known, self.journal, self.advance = known, journal, advance
        self.results = Results(plan)
        self._rows = plan.rows_by_group()
        self._is_known = known.groups(retry_unscored)
        self._is_blank = known.groups(False) & ~self._is_known
        self._pending: dict[int, _Pending] = {}
        self._computed_rows = 0
        self._wanted = np.ones_like(self._is_known) if shard is None else shard.groups(plan)

    @property
    def count(self) -> Counter[str]:
        """What was done, once it is: batches, requests, and rows without an answer."""
        sizes, starts = np.diff(self.plan.group_starts), self.plan.cuts[:-1]
        return Counter(
            batches=int(self._wanted[starts].sum()),
            of_batches=len(starts),
            computed=int(sizes[self._wanted & ~self._is_known].sum()),
            recalled=int(sizes[self._wanted & self._is_known].sum()),
            outages=int(self.results.outages.sum()),
        )

    def run(self, runner: Runner) -> Results:
        """Compute what is missing and recall the rest.

        A line that this run's journal has already is not written again, unless its group was
        computed anew. Where numbers depend on their batch, the whole batch is computed again.
        What is asked again because it was unscored is asked last, and not read from the cache.
        """
        replies = self.task.session.replies
        if replies is None or not (self.plan.exact and self._is_blank.any()):
            self._compute(runner, self._wanted)
        else:
            self._compute(runner, self._wanted & ~self._is_blank)
            with replies.asked_afresh():
                self._compute(runner, self._wanted & self._is_blank)
        return self.results

    def _compute(self, runner: Runner, wanted: NDArray[np.bool_]) -> None:
        for came in runner.run(self.task, self._units(runner, wanted)):
            unit = self._pending[came.unit]
            group = unit.groups[came.position]
            unit.lines.append((group, line_of(self.plan, group, came.result)))
            unit.missing -= 1
            self.advance(int(self._rows[group.number]))
            if self.plan.exact or not unit.missing:  # else a unit is kept only when it is whole
                self._take(sorted(unit.lines, key=lambda of: of[0].number))
                unit.lines = []
            if not unit.missing:
                del self._pending[came.unit]

    def _units(self, runner: Runner, wanted: NDArray[np.bool_]) -> Iterator[Batch]:
        number = 0
        for every in self._batches(runner):
            groups = every[wanted[every]]
            ready = self._is_known[groups]
            again = groups[~ready] if self.plan.exact else groups[: 0 if ready.all() else None]
            if ready.any() and (self.plan.exact or ready.all()):
                self._recall(groups[ready].tolist())
            if len(again):
                for unit in self._built(number, again.tolist()):
                    number = unit.number + 1
                    yield unit

    def _batches(self, runner: Runner) -> Iterator[NDArray[np.int64]]:
        cuts = self.plan.cuts.tolist()
        if self.plan.exact and self.plan.n_groups:
            step = runner.groups_per_batch(self.plan.n_groups)
            cuts = [*range(0, self.plan.n_groups, step), self.plan.n_groups]
        for start, stop in zip(cuts[:-1], cuts[1:], strict=True):
            yield np.arange(start, stop)

    def _built(self, number: int, groups: Sequence[int]) -> Iterator[Batch]:
        # An exact scorer's unit ends early where its texts are long.
        held: list[tuple[RequestGroup, Prepared]] = []
        characters = 0
        for group, read in build(self.task.computes, self.plan, self.source, groups):
            held.append((group, read))
            characters += _characters(read)
            if self.plan.exact and characters > CHARACTERS_PER_UNIT:
                yield self._start(number, held)
                number, held, characters = number + 1, [], 0
        if held:
            yield self._start(number, held)

    def _start(self, number: int, held: Sequence[tuple[RequestGroup, Prepared]]) -> Batch:
        self._pending[number] = _Pending([group for group, _ in held], len(held))
        return Batch(number, tuple(read for _, read in held))

    def _recall(self, groups: Sequence[int]) -> None:
        fresh: list[Line] = []
        for group in groups:
            row = self.source.id(int(self.plan.first_row[self.plan.of_group(group)[0]]))
            line, own = self.known.recall(group, row)
            self.results.put(self.plan.of_group(group), line)
            if not own:
                fresh.append(line)
            self.advance(int(self._rows[group]))
            if len(fresh) >= WRITTEN_TOGETHER:
                self._write(fresh)
                fresh = []
        self._write(fresh)

    def _take(self, lines: Sequence[tuple[RequestGroup, Line]]) -> None:
        for group, line in lines:
            self.results.put(self.plan.of_group(group.number), line)
        self._write([line for _, line in lines])
        before = self._computed_rows
        self._computed_rows += sum(int(self._rows[group.number]) for group, _ in lines)
        if before < ENOUGH_ROWS <= self._computed_rows:
            self._refuse_constant()

    def _refuse_constant(self) -> None:
        """Raise `UsageError` where a model has one score for all, but in a call that goes on."""
        numbers, spec = np.unique(self.results.numbers), self.task.name
        reads_model = {"content", "model"} & info_of(self.task.computes, spec).details.keys()
        if reads_model and len(numbers) == 1 and self.journal and not self._is_known.any():
            raise UsageError(
                f"{spec}: stopped, for {self._computed_rows:,} rows all score {numbers[0]:g}; look "
                "with palate show, or go on with the same command"
            )

    def _write(self, lines: Sequence[Line]) -> None:
        if self.journal is not None and lines:
            self.journal.append(lines)


def _characters(read: Prepared) -> int:
    slate = read.slate
    texts = [m.content for m in slate.question] + [p.text for p in slate.shown]
    return sum(map(len, texts)) + sum(map(len, slate.candidates))
