"""Models and settings of a command, where results lie, who is told; and a scorer's passes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Self, TypeAlias, TypedDict

from palate.benchmarks import Dataset
from palate.contexts import build_context
from palate.contexts.rows import SampledRows
from palate.errors import UsageError
from palate.evaluation.states import adapt_to
from palate.execution import (
    SHARDS,
    Pass,
    ResultIndex,
    Results,
    ScorerJob,
    Shard,
    WorkPlan,
    WorkPlanner,
    build_runner,
)
from palate.records import (
    Context,
    Judge,
    Progress,
    RowSource,
    Scorer,
    ScorerInfo,
    Settings,
    components_of,
    info_of,
)
from palate.records.arguments import ObjectName, listed
from palate.runs import JOURNAL, Journal, locked, passes_of, result_folders
from palate.scorers import Rater, build_scorer
from palate.session import Session, Start, default_session

Raters: TypeAlias = Rater | Iterable[Rater]
Contexts: TypeAlias = str | Context | Iterable[str | Context]


class WorkOptions(TypedDict, total=False):
    """What every public function takes that computes and keeps results, for `Work.of`."""

    session: Session | None
    settings: Settings | None
    root: Annotated[Path | str | None, "runs"]
    """Where results live; None keeps them in memory."""
    retry_unscored: Annotated[bool, False]
    """Whether replies that could not be read are asked for again."""
    start: Start | None
    """Told of each piece of work; gives its progress."""


def called(scorer: object) -> str:
    """Return what an object calls itself: its `spec` or `name`, else its class."""
    own = (getattr(scorer, name, None) for name in ("spec", "name"))
    return next((str(each) for each in own if each), type(scorer).__name__)


def silent(label: str) -> Progress:
    """Tell nobody of progress."""
    return lambda done, total: None


@dataclass(frozen=True, eq=False)
class Work:
    """One command's work: each scorer is built once, and adapted once to a benchmark's users.

    >>> work = Work.of()
    >>> work.scorer("longest") is work.scorer("longest")
    True
    """

    session: Session
    settings: Settings
    root: Path | None = None
    """Where results live; None keeps them in memory."""
    retry_unscored: bool = False
    """Whether replies that could not be read are asked for again."""
    start: Start = silent
    shard: Shard | None = None
    """Which batches are computed; None for all."""
    counts: dict[Path, Counter[str]] = field(default_factory=dict, repr=False)
    """By folder: what was done in its passes (see `Pass.count`)."""
    _scorers: dict[str, Scorer | Judge] = field(default_factory=dict, init=False, repr=False)
    _contexts: dict[str, Context] = field(default_factory=dict, init=False, repr=False)
    _adapted: dict[tuple[str, int], tuple[Dataset, Scorer | Judge]] = field(
        default_factory=dict, init=False, repr=False
    )

    @classmethod
    def of(
        cls,
        session: Session | None = None,
        settings: Settings | None = None,
        root: Path | str | None = None,
        *,
        retry_unscored: bool = False,
        start: Start | None = None,
        shard: Shard | None = None,
    ) -> Self:
        """Return the work of a function that was given these; without a session, the program's."""
        return cls(
            session or default_session(),
            settings or Settings(),
            None if root is None else Path(root),
            retry_unscored,
            start or silent,
            shard,
        )

    @property
    def place(self) -> Path | None:
        """Where this work writes: the root, or its shard's folder below it."""
        shard, root = self.shard, self.root
        return root if shard is None or root is None else shard.folder(root)

    def telling(self, start: Start) -> Self:
        """Return the same work that tells somebody else of its progress."""
        other = replace(self, start=start)
        other._scorers.update(self._scorers)
        other._contexts.update(self._contexts)
        other._adapted.update(self._adapted)
        return other

    def scorers(self, given: Raters, name: str | None = None) -> list[str]:
        """Return by what names scorers are called: their specs; of objects and functions, names.

        Those are `name`, where it is given, or what the object or its class calls itself. Raises
        `UsageError` for anything else, for two of one name, and for an object that declares no
        `info` where results are kept.
        """
        several = listed(given)
        if name is not None and len(several) != 1:
            raise UsageError(f"name={name!r}: it stands for one object, not for {len(several)}")
        names: dict[str, str] = {}
        for rater in several:
            text = rater
            if not isinstance(rater, str):
                built = build_scorer(rater, self.session, self.settings)
                text = ObjectName.of(built, name or called(built))
                self.scorer(text)
            first = names.setdefault(text, text)
            if first is not text and ObjectName in (type(first), type(text)):
                raise UsageError(f"two scorers are named {text}; give each a `name` of its own")
        return list(names.values())

    def contexts(self, given: Contexts) -> list[str]:
        """Return by what specs contexts are called; raises `UsageError` for what is none."""
        names: dict[str, str | Context] = {}
        for context in listed(given):
            text = context
            if not isinstance(context, str):
                built = build_context(context, self.session, self.settings)
                text = str(built.spec)
                self._contexts[text] = built
            if names.setdefault(text, context) is not context and text in self._contexts:
                raise UsageError(f"two contexts are named {text}; give each a spec of its own")
        return list(names)

    def scorer(self, scorer: str | Scorer | Judge) -> Scorer | Judge:
        """Return what a name stands for; raises `UsageError` for no `info` of kept results."""
        if not isinstance(scorer, str):
            return scorer
        if scorer not in self._scorers:
            named = scorer.value if isinstance(scorer, ObjectName) else scorer
            built = build_scorer(named, self.session, self.settings)
            if self.root is not None and not isinstance(getattr(built, "info", None), ScorerInfo):
                raise UsageError(
                    f"{scorer} declares no `info`, so its numbers on disk could not be told from "
                    "another version's; give it info = palate.ScorerInfo(fingerprint=…), or pass "
                    "root=None"
                )
            self._scorers[scorer] = built
        return self._scorers[scorer]

    def context(self, context: str | Context) -> Context:
        """Return what a spec names, built anew: some count what they were asked for."""
        if isinstance(context, str) and context in self._contexts:
            return self._contexts[context]
        return build_context(context, self.session, self.settings)

    def adapted(self, scorer: str | Scorer | Judge, pairs: Dataset, spec: str) -> Scorer | Judge:
        """Return a scorer that knows a benchmark's earlier choices; raises as `adapt_to` does."""
        built = self.scorer(scorer)
        if not isinstance(scorer, str):
            return adapt_to(built, pairs, spec)
        key = scorer, id(pairs)
        if key not in self._adapted:
            self._adapted[key] = pairs, adapt_to(built, pairs, spec)
        return self._adapted[key][1]


def journal_in(folder: Path | None, name: str = JOURNAL) -> AbstractContextManager[Journal | None]:
    """Open a folder's journal; without a folder there is none."""
    return nullcontext() if folder is None else Journal(folder / name)


class Computation:
    """One scorer over one set of rows, planned; workers elsewhere build it from `built_from`."""

    def __init__(
        self,
        scorer: Scorer | Judge,
        spec: str,
        rows: RowSource,
        work: Work,
        built_from: str | None = None,
    ) -> None:
        self.rows, self.work = rows, work
        self.job = ScorerJob(scorer, 0, built_from, work.session, work.settings, spec)
        self.components = components_of(scorer)
        self.info = tuple(info_of(part.scorer, spec) for part in self.components)
        self.fingerprints = tuple(info.fingerprint for info in self.info)
        """Of each component: all that its numbers depend on beside the rows."""
        self.details = tuple(info.details for info in self.info)
        """Of each component: what a manifest says of it."""
        self.plans = self._plans()

    @property
    def models(self) -> tuple[str, ...]:
        """What the numbers come from: content hashes of folders, names of served models."""
        named = (details.get(key) for details in self.details for key in ("content", "model"))
        return tuple(sorted({str(name) for name in named if name is not None}))

    def run(
        self,
        journal: Journal | None,
        root: Path | None,
        progress: Progress,
        *,
        check_memory: bool = False,
    ) -> list[Results]:
        """Return components' results, known by `root`; `check_memory` raises `ResourceError`."""
        work, runner = self.work, build_runner(self.work.session.engine)
        done, total = 0, len(self.rows) * len(self.components)

        def advance(n: int) -> None:
            nonlocal done
            done += n
            progress(done, total)

        results = []
        for number, (part, plan) in enumerate(zip(self.components, self.plans, strict=True)):
            rows = self.rows
            if part.without_context:
                rows = SampledRows(rows, range(len(rows)), without_context=True)
            task = self.job._replace(component=number, check_memory=check_memory)
            with ResultIndex(plan) as known:
                mine = None if journal is None else journal.path
                for path in self._others(mine, root, plan):
                    if path != mine:
                        known.read(path)
                if mine is not None:
                    known.read(mine, of_this_run=True)  # last, so that its own lines win
                of_part = Pass(
                    task, plan, rows, known, journal, advance, work.retry_unscored, work.shard
                )
                results.append(of_part.run(runner))
                if journal is not None:
                    work.counts.setdefault(journal.path.parent, Counter()).update(of_part.count)
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
