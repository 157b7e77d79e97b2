"""evaluate(benchmark, scorer, context) → Run."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from palate.benchmarks import Dataset, dataset_of, need_pairs
from palate.contexts import shows
from palate.errors import UsageError
from palate.evaluation.again import USUAL, FirstTime, Twice, computed_twice
from palate.evaluation.bound_scorer import BoundScorer
from palate.evaluation.computation import Computation
from palate.evaluation.scale import state_scales
from palate.evaluation.summary import summarise
from palate.evaluation.undecided import UndecidedRows, score_undecided
from palate.evaluation.verdict_rows import verdict_rows
from palate.evaluation.work import Work
from palate.execution import Results, build_runner
from palate.metrics import alarms
from palate.records import NO_STRANGER, Context, Judge, Progress, Scorer, ScorerInfo, Settings
from palate.runs import Noise, Run, Summary, Verdicts
from palate.scorers import is_baseline
from palate.session import Session


def evaluate(
    benchmark: str | Path | Dataset,
    scorer: str | Scorer | Judge,
    context: str | Context = "none",
    *,
    root: Path | str | None = "runs",
    name: str | None = None,
    session: Session | None = None,
    settings: Settings | None = None,
    retry_unscored: bool = False,
    progress: Progress | None = None,
    noise_rows: int | None = None,
    ask_again: float = 0.0,
    rate_undecided: bool = False,
) -> Run:
    """Evaluate one scorer under one context on one benchmark.

    `root` is where runs live; None keeps the run in memory. A scorer object needs a `name`, which
    stands for its spec. What is finished is not computed again; with `retry_unscored` replies that
    could not be read are asked for again. Without a `session` the program's default one is used.

    In half precision `noise_rows` of the rows are computed in float32 too, by default 16 or 2 %,
    whichever is more; of an endpoint the share `ask_again` of the rows is asked once more. The
    summary's `noise` tells what that changed.

    With `rate_undecided` the responses of rated rows that their users called ties are scored too,
    into `Run.undecided`, for `evaluate_ratings`; every other figure is as without.

    >>> run = evaluate("tasting", "longest", "none", root=None)
    >>> run.summary.accuracy.value, run.summary.mirrored_accuracy.n
    (0.5, 48)
    """
    work = Work.of(session, settings, root, retry_unscored=retry_unscored)
    twice = Twice(noise_rows, ask_again).check()
    build_runner(work.session.engine)  # what cannot be read is refused before anything is loaded
    pairs = dataset_of(benchmark, work.settings.seed)
    need_pairs(pairs.rows, pairs.name)
    run = evaluated_or_shard(
        scorer,
        pairs,
        context,
        work,
        twice,
        name=name,
        progress=progress,
        rate_undecided=rate_undecided,
    )
    assert run is not None, "a whole work gives a run"
    return run


def evaluated_or_shard(
    scorer: str | Scorer | Judge,
    pairs: Dataset,
    context: str | Context,
    work: Work,
    twice: Twice = USUAL,
    *,
    name: str | None = None,
    progress: Progress | None = None,
    rate_undecided: bool = False,
) -> Run | None:
    """Evaluate one scorer under one context as a part of some work; a shard only journals it."""
    started = time.monotonic()
    job = BoundScorer.of(scorer, pairs, context, work, name=name)
    if work.root is not None and not isinstance(getattr(job.scorer, "info", None), ScorerInfo):
        raise UsageError(
            f"{job.spec} declares no `info`, so its numbers on disk could not be told from another "
            "version's; give it info = palate.ScorerInfo(fingerprint=…), or pass root=None"
        )
    identity = {
        "rows": pairs.content_hash,
        "revision": pairs.revision,
        "mirrors": pairs.mirrors,
        "limit": pairs.limited,
        "columns": dict(pairs.columns),
    }
    order = {"order": "as in file"} if pairs.order_as_in_file else {}
    computed = job.computed(job.rows, Run.kind, progress, identity, **order, **pairs.window)
    with computed as (computation, passes, folder):
        verdicts = Verdicts(verdict_rows(job, passes)) if work.shard is None else None
        steps = len(job.rows) * len(passes)
        more = partial(_moved, progress, steps)
        noise, again = computed_twice(job, computation, FirstTime(verdicts, folder, more), twice)
        undecided = UndecidedRows(None, 0)
        if rate_undecided:
            undecided = score_undecided(job, folder, more)
        if verdicts is None:
            return None
        outages = int(np.logical_or.reduce([results.outages for results in passes]).sum())
        summary = _summary(job, computation, verdicts, passes[0], noise)
        if not is_baseline(job.spec):
            signs = tuple(_alarms(job, verdicts, passes, summary))
            summary = summary.model_copy(update={"alarms": signs})
        run = Run(
            summary,
            verdicts,
            folder,
            outages=outages + undecided.outages,
            again=again,
            undecided=undecided.rows,
        )
        if folder is not None:
            run.save()
    return replace(run, seconds=time.monotonic() - started)


def evaluated(
    scorer: str | Scorer | Judge,
    pairs: Dataset,
    context: str | Context,
    work: Work,
    *,
    progress: Progress | None = None,
) -> Run:
    """Evaluate all of one scorer under one context as a part of some work."""
    run = evaluated_or_shard(scorer, pairs, context, work, progress=progress)
    assert run is not None, "a shard gives no run"
    return run


def _moved(progress: Progress | None, before: int, done: int, total: int) -> None:
    # What is computed a second time comes on top.
    if progress is not None:
        progress(before + done, before + total)


def _alarms(
    job: BoundScorer, verdicts: Verdicts, passes: Sequence[Results], summary: Summary
) -> Iterator[alarms.Alarm]:
    """Look at all rows of a cell before they are believed."""
    codes, margins, longer = verdicts.by_text
    void, scored = (NO_STRANGER, "nothing shown"), summary.n_pairs - summary.unscored
    lost = {reason: n for reason, n in summary.unscored_reasons.items() if reason not in void}
    n, reason = sum(lost.values()), max(lost, key=lost.__getitem__, default=None)
    yield from alarms.of_share("unscored", n, n + scored, alarms.UNSCORED, reason=reason)
    position = summary.position_consistency or {"first_twice": 0, "second_twice": 0, "n": 0}
    sided = max(position["first_twice"], position["second_twice"])
    scores = passes[0].numbers if len(passes) == 1 and not job.judges else np.zeros(0)
    worse = [*alarms.of_scores(scores)]
    worse += alarms.of_share("one side", sided, position["n"], alarms.ONE_SIDE)
    n_pairs = len(np.unique(codes[0, ~np.isnan(verdicts.values)]))
    yield from worse or alarms.of_share("ties", summary.ties, scored, alarms.TIES, n_pairs)
    reads = shows(job.context.spec) == "user" and not job.info.needs_user
    yield from alarms.of_margins(
        codes, margins, longer, (verdicts.own_words > 0) & reads, log_odds=job.info.log_odds
    )


def _summary(
    job: BoundScorer,
    computation: Computation,
    verdicts: Verdicts,
    first: Results,
    noise: Noise | None,
) -> Summary:
    rows, info, seed = job.rows, job.info, job.work.settings.seed
    scales, notes = None, job.notes
    if rows.draws > 1:  # then there are no margins
        notes = (*notes, f"verdicts averaged over up to {rows.draws} strangers of each row")
    elif info.needs_user and verdicts.mirrored and isinstance(job.scorer, Scorer):
        scales = state_scales(job.scorer, rows, seed, job.work.session.store)
    return summarise(
        verdicts,
        benchmark=job.pairs.name,
        scorer=job.spec,
        context=job.context.spec,
        log_odds=info.log_odds,
        seed=seed,
        scales=scales,
        oracle=job.context.oracle,
        protocol=info.protocol,
        models=computation.models,
        undecided_rows=job.pairs.ties,
        bad_rows=len(job.pairs.bad_rows),
        parts_dropped=int((rows.parts - first.parts).sum()) if computation.info[0].cuts else 0,
        leaks_dropped=int(rows.leaks_dropped.sum()),
        shortfall_words=int(rows.shortfall_words[~rows.no_stranger].sum()),
        searches_unmatched=int(rows.search_unmatched.sum()) or None,
        split_texts=int(first.split.sum()),
        notes=notes,
        noise=noise,
    )
