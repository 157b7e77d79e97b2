"""The work of one scorer over rows: a plan and a pass for each of its components."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from palate.evaluation.work import Work
from palate.execution import (
    SHARDS,
    Pass,
    ResultIndex,
    Results,
    RowSource,
    Runner,
    ScorerJob,
    WorkPlan,
    WorkPlanner,
    build_runner,
)
from palate.records import (
    Judge,
    Progress,
    Scorer,
    Slate,
    components_of,
    info_of,
)
from palate.runs import (
    JOURNAL,
    Journal,
    locked,
    passes_of,
    result_folders,
)


class WithoutContext:
    """The same rows with nothing shown."""

    def __init__(self, rows: RowSource) -> None:
        self._rows = rows
        self.prepare, self.id, self.candidates = rows.prepare, rows.id, rows.candidates

    def __len__(self) -> int:
        return len(self._rows)

    def slate(self, row: int) -> Slate:
        """Return the row's slate without context."""
        return self._rows.slate(row).without_context()


class Computation:
    """One scorer over one set of rows, planned and ready to run.

    `built_from` is the spec that a worker elsewhere builds the scorer from, where it can.
    """

    def __init__(
        self,
        scorer: Scorer | Judge,
        spec: str,
        rows: RowSource,
        work: Work,
        *,
        built_from: str | None = None,
    ) -> None:
        self.scorer, self.spec, self.rows, self.work = scorer, spec, rows, work
        self.built_from = built_from
        self.components = components_of(scorer)
        self.info = tuple(info_of(part.scorer, spec) for part in self.components)
        self.plans = self._plans()

    @property
    def fingerprints(self) -> tuple[str, ...]:
        """Of each component: all that its numbers depend on beside the rows."""
        return tuple(info.fingerprint for info in self.info)

    @property
    def details(self) -> tuple[Mapping[str, Any], ...]:
        """Of each component: what a manifest says of it."""
        return tuple(info.details for info in self.info)

    @property
    def models(self) -> tuple[str, ...]:
        """What the numbers come from: content hashes of folders, names of served models."""
        told = (details.get(key) for details in self.details for key in ("content", "model"))
        return tuple(sorted({str(one) for one in told if one is not None}))

    def run(
        self,
        journal: Journal | None,
        root: Path | None,
        progress: Progress,
        runner: Runner | None = None,
    ) -> list[Results]:
        """Return each component's results; what journals under `root` hold is not computed anew."""
        work = self.work
        runner = runner or build_runner(work.session.engine)
        done, total = 0, len(self.rows) * len(self.components)

        def advance(n: int) -> None:
            nonlocal done
            done += n
            progress(done, total)

        results = []
        for number, (part, plan) in enumerate(zip(self.components, self.plans, strict=True)):
            source = WithoutContext(self.rows) if part.without_context else self.rows
            task = ScorerJob(
                self.scorer, number, self.built_from, work.session, work.settings, self.spec
            )
            with ResultIndex(plan) as known:
                mine = None if journal is None else journal.path
                for path in self._others(mine, root, plan):
                    if path != mine:
                        known.read(path)
                if mine is not None:
                    known.read(mine, of_this_run=True)  # last, so that its own lines win
                one_pass = Pass(
                    task,
                    plan,
                    source,
                    known,
                    journal,
                    retry_unscored=work.retry_unscored,
                    advance=advance,
                    shard=work.shard,
                )
                results.append(one_pass.run(runner))
                if journal is not None:
                    work.counts.setdefault(journal.path.parent, Counter()).update(one_pass.count)
        return results

    def _others(self, path: Path | None, root: Path | None, plan: WorkPlan) -> Iterator[Path]:
        # Journals that may hold lines of a pass: of other work, and of the shards of this one.
        for folder in result_folders(root) if root is not None else ():
            if plan.id in passes_of(folder):
                yield folder / JOURNAL
        top, place = self.work.root, self.work.place
        if path is None or path.name == JOURNAL or top is None or place is None:
            return
        for other in (top, *sorted(top.glob(f"{SHARDS}/*"))):
            yield other / path.relative_to(place)

    def _plans(self) -> list[WorkPlan]:
        top, alone = self.work.root, self.work.shard is None
        # Shards take turns at what contexts have models write, so that each text is written once.
        with nullcontext() if top is None or alone else locked(top / SHARDS, wait=True):
            self.rows.prepare()
        # All in one sweep: what a context shows may be costly to find.
        both = zip(self.components, self.info, strict=True)
        planners = [WorkPlanner(part.scorer, info) for part, info in both]
        for row in range(len(self.rows)):
            slate = self.rows.slate(row)
            for part, planner in zip(self.components, planners, strict=True):
                planner.add(slate.without_context() if part.without_context else slate)
        return [planner.plan(self.rows) for planner in planners]
