"""What one contestant computes over rows: a plan and a pass for each of its terms."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from palate.execution import Known, Pass, Plan, Planner, Results, Runner, Task
from palate.records import Judge, Scorer, Settings, Slate, Term, Traits, terms_of, traits_of
from palate.runs import Identity, Journal, Manifest, passes_of, run_folders, versions

Progress = Callable[[int, int], None]
"""Called with (rows done, rows in all); a pass of a scorer that needs two counts each row twice."""


@dataclass(frozen=True)
class Options:
    """How contestants are run. Which pairs are read is decided where they are loaded."""

    settings: Settings = field(default_factory=Settings)
    retry_unscored: bool = False
    engine: str | None = None
    """Where contestants compute: `here` (the default) or e.g. `ray?workers=4`; no part of a run's
    identity."""


class Asked(Protocol):
    """Rows of two candidates each, built when asked for."""

    def __len__(self) -> int:
        """Return the number of rows."""
        ...

    def prepare(self) -> None:
        """Do at once what would be costly row by row."""
        ...

    def id(self, row: int) -> str:
        """Return the row's id."""
        ...

    def slate(self, row: int) -> Slate:
        """Return the row's slate; the same at every call."""
        ...

    def candidates(self, row: int) -> tuple[str, ...]:
        """Return the slate's candidates."""
        ...


class Blind:
    """The same rows with nothing shown."""

    def __init__(self, rows: Asked) -> None:
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def id(self, row: int) -> str:
        """Return the row's id."""
        return self._rows.id(row)

    def slate(self, row: int) -> Slate:
        """Return the row's slate without context."""
        return self._rows.slate(row).without_context()

    def candidates(self, row: int) -> tuple[str, ...]:
        """Return the slate's candidates."""
        return self._rows.candidates(row)


class Computation:
    """One contestant over one set of rows, planned and ready to run.

    `built_from` is the spec that a worker elsewhere builds the contestant from, where it can.
    """

    def __init__(
        self,
        contestant: Scorer | Judge,
        spec: str,
        rows: Asked,
        options: Options,
        built_from: str | None = None,
    ) -> None:
        self.contestant, self.spec, self.rows = contestant, spec, rows
        self.options, self.built_from = options, built_from
        self.terms = terms_of(contestant)
        self.plans = self._plans()

    @property
    def fingerprints(self) -> tuple[str, ...]:
        """Of each term: all that its numbers depend on beside the rows."""
        return tuple(self.traits_of(term).fingerprint for term in self.terms)

    @property
    def details(self) -> tuple[Mapping[str, Any], ...]:
        """Of each term: what a manifest says of it."""
        return tuple(self.traits_of(term).details for term in self.terms)

    @property
    def models(self) -> tuple[str, ...]:
        """What the numbers come from: content hashes of folders, names of served models."""
        told = (details.get(key) for details in self.details for key in ("content", "model"))
        return tuple(sorted({str(one) for one in told if one is not None}))

    def traits_of(self, term: Term) -> Traits:
        """Return what a term declares."""
        return traits_of(term.contestant, self.spec)

    def manifest(self, identity: Identity) -> Manifest:
        """Return what a folder of these results says of itself."""
        passes = tuple(plan.id for plan in self.plans)
        return Manifest(identity=identity, passes=passes, details=self.details, versions=versions())

    def run(
        self, journal: Journal | None, root: Path | None, runner: Runner, progress: Progress
    ) -> list[Results]:
        """Return each term's results; what journals under `root` hold is not computed again."""
        done, total = 0, len(self.rows) * len(self.terms)

        def advance(n: int) -> None:
            nonlocal done
            done += n
            progress(done, total)

        return [
            self._pass(number, root, journal, runner, advance) for number in range(len(self.terms))
        ]

    def _plans(self) -> list[Plan]:
        self.rows.prepare()
        # All in one sweep: what a context shows may be costly to find.
        n = len(self.rows)
        planners = [Planner(term.contestant, self.traits_of(term), n) for term in self.terms]
        for row in range(n):
            slate = self.rows.slate(row)
            for term, planner in zip(self.terms, planners, strict=True):
                planner.add(row, slate.without_context() if term.blind else slate)
        return [planner.plan(self.rows) for planner in planners]

    def _pass(
        self,
        number: int,
        root: Path | None,
        journal: Journal | None,
        runner: Runner,
        advance: Callable[[int], None],
    ) -> Results:
        plan = self.plans[number]
        source = Blind(self.rows) if self.terms[number].blind else self.rows
        with Known(plan) as known:
            if root is not None and journal is not None:
                own = journal.path.parent
                for other in run_folders(root):
                    if other != own and plan.id in passes_of(other):
                        known.read(other / "journal.jsonl")
                known.read(journal.path, own=source)  # last, so that its own lines win
            task = Task(self.contestant, number, self.built_from, self.options.settings, self.spec)
            return Pass(
                task, plan, source, known, journal,
                retry_unscored=self.options.retry_unscored, advance=advance,
            ).run(runner)  # fmt: skip
