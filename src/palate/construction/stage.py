"""One step of a build or an audit: each row goes on, or is dropped with a reason.

A stage has no file of its own. What its work costs is kept where that is computed: a policy's
answers by prompt, ratings and vectors by what they are of. So a build that was killed and is called
again reads the same rows in the same order, and computes none of that twice.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Generic, NamedTuple, TypeVar

from palate.records import Record

R = TypeVar("R")
S = TypeVar("S")


class Dropped(NamedTuple):
    """The outcome of a row that does not go on."""

    reason: str


class StageCounts(Record):
    """How many rows a stage read, kept and dropped; what was read is one of both."""

    stage: str
    of: str
    """What its rows are, such as `test rows`."""
    n_read: int
    n_kept: int
    dropped: Mapping[str, int]
    """By reason."""


class Stage(Generic[R, S]):
    """Gives every row an outcome, and counts the outcomes of all its calls.

    `work` is given the rows and yields, in their order, what goes on or `Dropped`. It may read as
    many rows ahead as it computes together. `reasons` come first, in this order, in the counts.

    >>> longer = Stage.by_reason("words", "answers", lambda text: "one word" * (" " not in text))
    >>> list(longer.run(["yes", "of course", "no"])), dict(longer.counts.dropped)
    (['of course'], {'one word': 2})
    """

    def __init__(
        self,
        name: str,
        of: str,
        work: Callable[[Iterator[R]], Iterable[S | Dropped]],
        *,
        reasons: Iterable[str] = (),
    ) -> None:
        self.name, self.of, self._work = name, of, work
        self._read = self._kept = 0
        self._dropped: Counter[str] = Counter(dict.fromkeys(reasons, 0))

    @classmethod
    def by_reason(
        cls, name: str, of: str, reason: Callable[[R], str | None], *, reasons: Iterable[str] = ()
    ) -> Stage[R, R]:
        """Return a stage that looks at each row alone; a row without a reason goes on."""

        def work(rows: Iterator[R]) -> Iterator[R | Dropped]:
            for row in rows:
                why = reason(row)
                yield Dropped(why) if why else row

        return Stage(name, of, work, reasons=reasons)

    def outcomes(self, rows: Iterable[R]) -> Iterator[tuple[R, S | Dropped]]:
        """Yield each row with its outcome, in order; all counts are right once all are read."""
        waiting: deque[R] = deque()

        def noted() -> Iterator[R]:
            for row in rows:
                self._read += 1
                waiting.append(row)
                yield row

        for outcome in self._work(noted()):
            assert waiting, f"{self.name}: more outcomes than rows"
            if isinstance(outcome, Dropped):
                self._dropped[outcome.reason] += 1
            else:
                self._kept += 1
            yield waiting.popleft(), outcome
        assert not waiting, f"{self.name}: {len(waiting)} rows without an outcome"

    def run(self, rows: Iterable[R]) -> Iterator[S]:
        """Yield what goes on."""
        for _, outcome in self.outcomes(rows):
            if not isinstance(outcome, Dropped):
                yield outcome

    @property
    def counts(self) -> StageCounts:
        """What became of the rows that were read until now."""
        dropped = {reason: n for reason, n in self._dropped.items() if n}
        return StageCounts(
            stage=self.name, of=self.of, n_read=self._read, n_kept=self._kept, dropped=dropped
        )


def dropped_by_row(stages: Iterable[StageCounts], of: Iterable[str]) -> dict[str, dict[str, int]]:
    """Return how many of each sort of row were dropped for which reason, over all stages."""
    totals = {what: Counter[str]() for what in of}
    for stage in stages:
        totals[stage.of].update(stage.dropped)
    return {what: dict(reasons) for what, reasons in totals.items()}
