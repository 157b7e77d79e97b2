"""evaluate(scorer, benchmark, context) → Run."""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from palate.benchmarks import Dataset, dataset_of, need_pairs
from palate.contexts import build_context
from palate.errors import UsageError
from palate.evaluation.computing import Computation, Options, Progress
from palate.evaluation.judging import verdict_rows
from palate.evaluation.rows import Rows, make_rows
from palate.evaluation.scale import state_scales
from palate.evaluation.states import adapt_to, whose_state
from palate.evaluation.summarise import summarise
from palate.execution import Results, build_runner
from palate.records import Context, Judge, Scorer, Traits, traits_of
from palate.runs import JOURNAL, Identity, Journal, Run, Summary, Verdicts
from palate.scorers import build_scorer
from palate.seeding import digest
from palate.specs import Spec


def evaluate(
    scorer: str | Scorer | Judge,
    benchmark: str | Path | Dataset = "tasting",
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
    spec = spec_of(contestant, scorer if isinstance(scorer, str) else None, name)
    shown = build_context(context, options.settings) if isinstance(context, str) else context
    seed = options.settings.seed
    pairs = dataset_of(benchmark, seed)
    need_pairs(pairs.rows, pairs.name)
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
    state_draws: int = getattr(contestant, "draws", 1)
    rows = make_rows(pairs, shown, seed=seed, whose=whose, state_draws=state_draws)
    work = Computation(contestant, spec, rows, options, built_from)
    job = _Job(contestant, traits, work, shown, pairs, rows, options)
    run = job.run(Path(root) if root is not None else None, progress or (lambda done, total: None))
    return replace(run, seconds=time.monotonic() - started)


def spec_of(contestant: Scorer | Judge, text: str | None, name: str | None = None) -> str:
    """Return what a contestant is called: without options that change no number, as a time-out."""
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


def shown_by(context: Context, pairs: Dataset) -> str | None:
    """Return the hash of what a context computes with and, where it reads them, past choices."""
    own = getattr(context, "fingerprint", None)
    if "choices" in getattr(context, "needs", ()) and pairs.history:
        return digest("choices", own, pairs.history_hash)
    return own


@dataclass(frozen=True)
class _Job:
    """One evaluation, ready to run."""

    contestant: Scorer | Judge
    traits: Traits
    work: Computation
    context: Context
    pairs: Dataset
    rows: Rows
    options: Options

    def identity(self) -> Identity:
        """Return what names this run."""
        settings = self.options.settings
        details = self.work.details[0]
        return Identity(
            benchmark=self.pairs.name,
            scorer=self.work.spec,
            context=self.context.spec,
            rows=self.pairs.content_hash,
            revision=self.pairs.revision,
            fingerprints=self.work.fingerprints,
            protocol=self.traits.protocol,
            split=self.pairs.split,
            mirrors=self.pairs.mirrors,
            limit=self.pairs.limited,
            columns=dict(self.pairs.columns),
            shown_by=shown_by(self.context, self.pairs),
            seed=settings.seed,
            dtype=details.get("dtype"),
            device=details.get("device"),
            batch_tokens=settings.batch_tokens,
        )

    def run(self, root: Path | None, progress: Progress) -> Run:
        """Compute what is missing, then judge and summarise."""
        folder = None
        with ExitStack() as stack:
            journal = None
            if root is not None:
                manifest = self.work.manifest(Run.kind, self.identity())
                folder = manifest.folder(root)
                journal = stack.enter_context(Journal(folder / JOURNAL))
                manifest.write(folder)
            runner = build_runner(self.options.engine)
            passes = self.work.run(journal, root, runner, progress)
            rows = verdict_rows(
                self.contestant, self.traits, self.pairs.pairs, self.rows, passes, self._mates()
            )
            verdicts = Verdicts(rows)
            outages = int(np.logical_or.reduce([found.outages for found in passes]).sum())
            run = Run(self._summary(verdicts, passes[0]), verdicts, folder, outages=outages)
            if folder is not None:
                run.save()
        return run

    def _mates(self) -> NDArray[np.int32]:
        mates = np.full(len(self.pairs.rows), -1, dtype=np.int32)
        for ours, theirs in self.pairs.couples:
            mates[ours], mates[theirs] = theirs, ours
        return mates

    def _summary(self, verdicts: Verdicts, first: Results) -> Summary:
        speakers = (self.contestant, self.context)
        said = [note for one in speakers for note in getattr(one, "notes", tuple)()]
        notes = [*self.traits.notes, *said]
        scales = None
        if (
            self.traits.needs_user
            and verdicts.mirrored
            and self.rows.draws == 1  # else there are no margins
            and isinstance(self.contestant, Scorer)
        ):
            scales = state_scales(self.contestant, self.rows, self.options.settings.seed)
        if self.rows.draws > 1:
            notes.append(f"verdicts averaged over up to {self.rows.draws} strangers of each row")
        cuts = self.work.traits_of(self.work.components[0]).cuts
        dropped = int((self.rows.parts - first.parts).sum()) if cuts else 0
        return summarise(
            verdicts,
            benchmark=self.pairs.name,
            scorer=self.work.spec,
            context=self.context.spec,
            log_odds=self.traits.log_odds,
            seed=self.options.settings.seed,
            scales=scales,
            oracle=self.context.oracle,
            protocol=self.traits.protocol,
            models=self.work.models,
            undecided_rows=self.pairs.ties,
            bad_rows=len(self.pairs.bad_rows),
            parts_dropped=dropped,
            leaks_dropped=int(self.rows.leaks_dropped.sum()),
            shortfall_words=int(self.rows.shortfall_words[~self.rows.no_stranger].sum()),
            split_texts=int(first.split.sum()),
            notes=tuple(notes),
        )
