"""One pass: what is not known yet is computed, unit by unit, and journalled as it comes."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from palate.errors import PalateError, UsageError
from palate.execution.plan import PREFIX, WorkPlan, shown_characters
from palate.execution.results import ResultIndex, Results
from palate.execution.runner import Batch, Runner, ScorerJob
from palate.records import (
    Encoded,
    Judge,
    Judgement,
    Prepared,
    RowSource,
    Scorer,
    Scores,
    info_of,
    prepare,
)
from palate.runs import Journal, Line
from palate.seeding import digest

WRITTEN_TOGETHER = 1024
ENOUGH_ROWS = 200
"""Computed rows after which a model that gives all of them one score is stopped."""
CHARACTERS_PER_UNIT = 32_000_000
SHARDS = "shards"
"""Under a root of runs: what shards journal."""


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
        advance: Callable[[int], None],
        retry_unscored: bool,
        shard: Shard | None,
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
            slate = read.slate
            characters += shown_characters(slate) + sum(map(len, slate.candidates))
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


class Shard(NamedTuple):
    """The batches I, I+N, I+2N, … of every pass; processes share a folder and nothing else."""

    number: int
    of: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `I/N`; raises `UsageError` unless 1 ≤ I ≤ N.

        >>> Shard.parse("2/8")
        Shard(number=2, of=8)
        """
        match = re.fullmatch("([0-9]{1,9})/([0-9]{1,9})", text)
        if match is None or not 1 <= int(match[1]) <= int(match[2]):
            raise UsageError(f"--shard {text}: expected I/N with I from 1 to N, such as 1/8")
        return cls(int(match[1]), int(match[2]))

    def folder(self, root: Path) -> Path:
        """Return where its journals lie, in the same folders as below the root itself."""
        return root / SHARDS / f"{self.number}-of-{self.of}"

    def groups(self, plan: WorkPlan) -> NDArray[np.bool_]:
        """Return which groups of a plan it computes."""
        batches = np.arange(len(plan.cuts) - 1) % self.of == self.number - 1
        return np.repeat(batches, np.diff(plan.cuts))


NON_FINITE = "no finite number"


class RequestGroup(NamedTuple):
    """Requests that are computed as one slate, without it: what their journal line needs."""

    number: int
    row: str
    """Id of the first row that makes any of them."""
    keys: tuple[str, ...]
    parts: int
    """Parts shown of the user."""


def build(
    scorer: Scorer | Judge, plan: WorkPlan, source: RowSource, groups: Iterable[int]
) -> Iterator[tuple[RequestGroup, Prepared]]:
    """Yield the groups of these numbers, each with its slate.

    Raises `PalateError` where a context shows or a scorer reads another thing than when the group
    was planned: its numbers would be kept under the wrong key.
    """
    for number in groups:
        requests = plan.of_group(number)
        row = int(plan.first_row[requests[0]])
        whole = _prepared(scorer, plan, source, row)
        prompt = whole.slate.prompt_key
        if plan.judged:
            pairs = list(combinations(whole.slate.candidates, 2))
            both = pairs[int(plan.first_place[requests[0]])]
            keys: tuple[str, ...] = (digest(plan.fingerprint, prompt, both),)
            if len(pairs) == 1:
                read = whole
            else:  # what fits beside the longest may not beside these two, counted in tokens
                read = prepare(scorer, whole.slate.replace(candidates=both))
        else:
            read = _of_requests(whole, plan, source, requests)
            keys = tuple(digest(plan.fingerprint, prompt, t) for t in read.slate.candidates)
        if not plan.judged or int(plan.row_starts[row + 1] - plan.row_starts[row]) == 1:
            for k in {int(plan.first_row[k]) for k in requests}:
                plan.prepared.pop(k, None)
        planned = plan.keys[requests.start : requests.stop].tobytes()
        if b"".join(bytes.fromhex(key)[:PREFIX] for key in keys) != planned:
            raise PalateError(
                f"row {source.id(row)}: the context or the scorer's prepare() gave another slate "
                "than before; both must give the same for the same question"
            )
        yield RequestGroup(number, source.id(row), keys, len(whole.slate.shown)), read


def _prepared(scorer: Scorer | Judge, plan: WorkPlan, source: RowSource, row: int) -> Prepared:
    ready = plan.prepared.get(row)
    if ready is not None:
        return ready
    return prepare(scorer, source.slate(row), int(plan.dropped[row]) if len(plan.dropped) else None)


def _of_requests(whole: Prepared, plan: WorkPlan, source: RowSource, requests: range) -> Prepared:
    # The group's texts in its order, each with what the first row that has it was tokenised to.
    texts: list[str] = []
    inputs: list[Encoded] = []
    for k in requests:
        row, place = int(plan.first_row[k]), int(plan.first_place[k])
        texts.append(source.candidates(row)[place])
        ready = plan.prepared.get(row)
        if ready is not None and ready.inputs:
            inputs.append(ready.inputs[place])
    slate = whole.slate
    return Prepared(
        slate if slate.candidates == tuple(texts) else slate.replace(candidates=tuple(texts)),
        whole.dropped,
        tuple(inputs) if len(inputs) == len(texts) else (),
    )


def line_of(plan: WorkPlan, group: RequestGroup, result: Scores | Judgement) -> Line:
    """Return the journal line of a group; raises `UsageError` for a wrong number of scores."""
    reasons: tuple[str | None, ...]
    split: tuple[bool, ...]
    if isinstance(result, Judgement):
        values, wild = _finite(result.orders or (result.margin,))
        reason = NON_FINITE if any(wild) else result.reason
        reasons, split, outage = (reason,) if reason else (), (), result.outage
    else:
        values, wild = _finite(result.values)
        if len(values) != (n := len(group.keys)):
            raise UsageError(f"a scorer gave {len(values)} scores for {n} candidates")
        reasons, split = result.reasons, result.split
        outage = result.outage and None in result.values
        if any(wild):
            before = reasons or (None,) * n
            reasons = tuple(NON_FINITE if w else r for w, r in zip(wild, before, strict=True))
    same = {"id": group.row, "in_pass": plan.id, "keys": group.keys, "parts": group.parts}
    more = {"values": values, "reasons": reasons, "split": split, "outage": outage}
    return Line(**same, **more, raw=result.raw)


def _finite(values: tuple[float | None, ...]) -> tuple[tuple[float | None, ...], list[bool]]:
    wild = [value is not None and not math.isfinite(value) for value in values]
    return tuple(None if w else v for v, w in zip(values, wild, strict=True)), wild
