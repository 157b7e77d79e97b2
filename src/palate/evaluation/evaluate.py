"""evaluate(scorer, benchmark, context) → Run."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from palate.benchmarks import PairSet, load_benchmark
from palate.contexts import build_context
from palate.errors import UsageError
from palate.evaluation.judging import verdict_rows
from palate.evaluation.rows import Blind, Rows, make_rows
from palate.evaluation.scale import user_scales
from palate.evaluation.states import adapt_to, whose_state
from palate.evaluation.summarise import summarise
from palate.execution import Known, Pass, Plan, Planner, Results, Runner, Task, build_runner
from palate.records import (
    Context,
    Judge,
    Scorer,
    Settings,
    Term,
    Traits,
    terms_of,
    traits_of,
)
from palate.runs import (
    Identity,
    Journal,
    Manifest,
    Run,
    Summary,
    Verdicts,
    passes_of,
    run_folders,
    versions,
)
from palate.scorers import build_scorer
from palate.seeding import digest
from palate.specs import Spec

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


def evaluate(
    scorer: str | Scorer | Judge,
    benchmark: str | PairSet = "tasting",
    context: str | Context = "none",
    *,
    root: Path | str | None = "runs",
    name: str | None = None,
    options: Options | None = None,
    progress: Progress | None = None,
) -> Run:
    """Evaluate one scorer under one context on one benchmark.

    `root` is where runs live; None keeps the run in memory. A scorer object needs a `name`, which
    stands for its spec. What is finished is not computed again.

    >>> run = evaluate("longest", "tasting", "none", root=None)
    >>> run.summary.accuracy.value, run.summary.mirrored_accuracy.n
    (0.5, 48)
    """
    options = options or Options()
    build_runner(options.engine)  # a spec that cannot be read is said so before anything is loaded
    started = time.monotonic()
    contestant = build_scorer(scorer, options.settings) if isinstance(scorer, str) else scorer
    spec = _spec_of(contestant, scorer if isinstance(scorer, str) else None, name)
    shown = build_context(context, options.settings) if isinstance(context, str) else context
    seed = options.settings.seed
    pairs = load_benchmark(benchmark, seed=seed) if isinstance(benchmark, str) else benchmark
    pairs = pairs if pairs.split is not None else pairs.select()
    adapted = adapt_to(contestant, pairs, spec)
    built_from = scorer if isinstance(scorer, str) and adapted is contestant else None
    contestant, traits = adapted, traits_of(adapted, spec)
    if root is not None and not isinstance(getattr(contestant, "traits", None), Traits):
        raise UsageError(
            f"{spec} declares no traits, so its numbers on disk could not be told from another "
            "version's; give it traits = palate.Traits(fingerprint=…), or pass root=None"
        )
    refuse(traits, shown, spec)
    whose = whose_state(contestant, traits, pairs, seed)
    rows = make_rows(pairs, shown, seed=seed, whose=whose)
    job = _Job(contestant, traits, spec, built_from, shown, pairs, rows, options)
    run = job.run(Path(root) if root is not None else None, progress or (lambda done, total: None))
    return replace(run, seconds=time.monotonic() - started)


def _spec_of(contestant: Scorer | Judge, text: str | None, name: str | None) -> str:
    # A scorer may name itself without the options that change no number, such as a time-out.
    if text is None:
        return name or type(contestant).__name__
    own = getattr(contestant, "canonical", None)
    return own if isinstance(own, str) else str(Spec.parse(text))


def meaningless(traits: Traits, context: Context) -> bool:
    """Tell whether a cell has no meaning: a scorer that needs text under a context without any."""
    return traits.needs_shown and context.blind


def refuse(traits: Traits, context: Context, spec: str) -> None:
    """Raise `UsageError` for a scorer under a context that makes no sense for it."""
    if meaningless(traits, context):
        raise UsageError(f"{spec} has no meaning under {context.spec}: nothing is shown")
    if traits.protocol == "paper" and not context.blind:
        raise UsageError(f"{spec}: protocol=paper is defined without a profile; use -c none")


def _shown_by(context: Context, pairs: PairSet) -> str | None:
    # What the context computes with and, where it reads them, the past choices.
    own = getattr(context, "fingerprint", None)
    if "choices" in getattr(context, "needs", ()) and pairs.history:
        return digest("choices", own, pairs.history_hash)
    return own


class _Job:
    """One evaluation, ready to run."""

    def __init__(
        self,
        contestant: Scorer | Judge,
        traits: Traits,
        spec: str,
        built_from: str | None,
        context: Context,
        pairs: PairSet,
        rows: Rows,
        options: Options,
    ) -> None:
        self.contestant, self.traits, self.spec = contestant, traits, spec
        self.built_from = built_from
        self.context, self.pairs, self.rows, self.options = context, pairs, rows, options
        self.terms = terms_of(contestant)
        self.plans = self._plans()

    def _term_traits(self, term: Term) -> Traits:
        own = term.contestant is self.contestant
        return self.traits if own else traits_of(term.contestant, self.spec)

    def _plans(self) -> list[Plan]:
        self.rows.prepare()
        # All in one sweep: what a context shows may be costly to find.
        n = len(self.rows)
        planners = [Planner(term.contestant, self._term_traits(term), n) for term in self.terms]
        for row in range(n):
            slate = self.rows.slate(row)
            for term, planner in zip(self.terms, planners, strict=True):
                planner.add(row, slate.without_context() if term.blind else slate)
        return [planner.plan(self.rows) for planner in planners]

    def identity(self) -> Identity:
        """Return what names this run."""
        settings = self.options.settings
        details = self._term_traits(self.terms[0]).details
        return Identity(
            benchmark=self.pairs.name,
            scorer=self.spec,
            context=self.context.spec,
            rows=self.pairs.content_hash,
            revision=self.pairs.revision,
            fingerprints=tuple(self._term_traits(term).fingerprint for term in self.terms),
            protocol=self.traits.protocol,
            split=self.pairs.split,
            mirrors=self.pairs.mirrors,
            limit=self.pairs.limited,
            columns=dict(self.pairs.columns),
            shown_by=_shown_by(self.context, self.pairs),
            seed=settings.seed,
            dtype=details.get("dtype"),
            device=details.get("device"),
            batch_tokens=settings.batch_tokens,
        )

    def run(self, root: Path | None, progress: Progress) -> Run:
        """Compute what is missing, then judge and summarise."""
        folder = None
        passes: list[Results] = []
        done, total = 0, len(self.rows) * len(self.terms)

        def advance(n: int) -> None:
            nonlocal done
            done += n
            progress(done, total)

        with ExitStack() as stack:
            journal = None
            if root is not None:
                folder = self.identity().folder(root)
                journal = stack.enter_context(Journal(folder / "journal.jsonl"))
                self._manifest().write(folder)
            runner = build_runner(self.options.engine)
            for number in range(len(self.terms)):
                passes.append(self._pass(number, root, journal, runner, advance))
            rows = verdict_rows(self.contestant, self.traits, self.rows, passes, self._mates())
            verdicts = Verdicts(rows)
            outages = int(np.logical_or.reduce([found.outages for found in passes]).sum())
            run = Run(self._summary(verdicts, passes[0]), verdicts, folder, outages=outages)
            if folder is not None:
                run.save()
        return run

    def _manifest(self) -> Manifest:
        return Manifest(
            identity=self.identity(),
            passes=tuple(plan.id for plan in self.plans),
            details=tuple(self._term_traits(term).details for term in self.terms),
            versions=versions(),
        )

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

    def _mates(self) -> NDArray[np.int32]:
        mates = np.full(len(self.rows), -1, dtype=np.int32)
        for ours, theirs in self.pairs.couples:
            mates[ours], mates[theirs] = theirs, ours
        return mates

    def _summary(self, verdicts: Verdicts, first: Results) -> Summary:
        speakers = (self.contestant, self.context)
        said = [note for one in speakers for note in getattr(one, "notes", tuple)()]
        notes = [*self.traits.notes, *said]
        scale = None
        if self.traits.needs_user and verdicts.mirrored and isinstance(self.contestant, Scorer):
            scale = user_scales(self.contestant, self.rows, self.options.settings.seed)
        cuts = self._term_traits(self.terms[0]).cuts
        dropped = int((self.rows.parts - first.parts).sum()) if cuts else 0
        return summarise(
            verdicts,
            benchmark=self.pairs.name,
            scorer=self.spec,
            context=self.context.spec,
            log_odds=self.traits.log_odds,
            seed=self.options.settings.seed,
            user_scale=scale,
            oracle=self.context.oracle,
            protocol=self.traits.protocol,
            undecided_rows=self.pairs.ties,
            bad_rows=len(self.pairs.bad_rows),
            parts_dropped=dropped,
            leaks_dropped=int(self.rows.leaks_dropped.sum()),
            shortfall_words=int(self.rows.shortfall_words.sum()),
            split_texts=int(first.split.sum()),
            notes=tuple(notes),
        )
