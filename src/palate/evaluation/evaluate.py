"""One scorer under one context on one benchmark: rows, results, verdicts, summary, run.

Below it, rows that a run computes apart from its own pass: rows in half precision are computed in
float32 too, replies of endpoints are asked for again; the responses of rated rows that their users
called ties are scored. Each is the run's pass over other rows, with a journal of its own in the
run's folder.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from palate.benchmarks import Dataset
from palate.contexts import shows
from palate.contexts.rows import NOBODY_LIVE, ContextRows
from palate.engines import is_out_of_memory
from palate.errors import RunError, UsageError
from palate.evaluation.job import BoundScorer, lost_rows
from palate.evaluation.states import state_scales, with_states_of
from palate.evaluation.summary import members_of, summarise, undecided_rows, verdict_rows
from palate.evaluation.work import Computation, Work, journal_in, silent
from palate.execution import Results
from palate.metrics import alarms
from palate.models import choose_device, choose_dtype
from palate.records import NO_STRANGER, Context, Judge, PreferencePair, Progress, Scorer
from palate.runs import Noise, Run, Summary, Verdicts, noise_of
from palate.runs.run import AGAIN
from palate.scorers import is_baseline
from palate.seeding import unit


class RecomputeOptions(NamedTuple):
    """Which rows are computed twice, if any: `--noise-rows`, `--ask-again`."""

    noise_rows: int | None = None
    """Of half precision; None for 16 rows or 2 %, whichever is more."""
    ask_again: float = 0.0
    """Share of an endpoint's rows."""

    def check(self) -> RecomputeOptions:
        """Return it; raises `UsageError` naming the option that is wrong."""
        rows, share = self
        if rows is not None and rows < 0:
            raise UsageError(f"--noise-rows {rows}: expected a number of rows, 0 for none")
        if not 0 <= share <= 1:
            raise UsageError(f"--ask-again {share:g}: expected a share of the rows, 0 to 1")
        return self


USUAL = RecomputeOptions()
"""What is usual: rows of half precision are computed twice, an endpoint's are not."""


def evaluated(
    scorer: str | Scorer | Judge,
    pairs: Dataset,
    context: str | Context,
    work: Work,
    options: RecomputeOptions = USUAL,
    **how: Any,
) -> Run:
    """Evaluate all of one scorer under one context on one benchmark, as a part of some work."""
    assert work.shard is None, "a shard gives no run"
    run = run_or_shard(scorer, pairs, context, work, options, **how)
    assert run is not None
    return run


def run_or_shard(
    scorer: str | Scorer | Judge,
    pairs: Dataset,
    context: str | Context,
    work: Work,
    options: RecomputeOptions = USUAL,
    *,
    progress: Progress | None = None,
    rate_undecided: bool = False,
) -> Run | None:
    """Evaluate as `evaluated` does; a shard of the work only journals its part, and gives None."""
    started = time.monotonic()
    job = BoundScorer.of(scorer, pairs, context, work)
    identity = {"rows": pairs.content_hash, **pairs.how_read}
    with job.computed(job.rows, Run.kind, progress, identity) as (computation, passes, folder):
        verdicts = Verdicts(verdict_rows(job, passes)) if work.shard is None else None
        on_top = _on_top(progress, len(job.rows) * len(passes))
        first = FirstRun(computation, verdicts, folder, on_top)
        noise, again = recomputed(job, first, options)
        undecided, outages = score_undecided(job, folder, on_top) if rate_undecided else (None, 0)
        if verdicts is None:
            return None
        summary = summary_of(job, computation, verdicts, passes, noise)
        outages += lost_rows(passes)
        run = Run(summary, verdicts, folder, outages=outages, again=again, undecided=undecided)
        if folder is not None:
            run.save()
    return replace(run, seconds=time.monotonic() - started)


def _on_top(progress: Progress | None, before: int) -> Progress:
    """Return a progress for what is computed after so many rows."""
    tell = progress or silent("")
    return lambda done, total: tell(before + done, before + total)


def summary_of(
    job: BoundScorer,
    computation: Computation,
    verdicts: Verdicts,
    passes: Sequence[Results],
    noise: Noise | None,
) -> Summary:
    """Return the figures of a job's verdicts, what its passes tell beside them, and alarms."""
    rows, info, seed, first = job.rows, job.info, job.work.settings.seed, passes[0]
    scales, notes = None, job.notes
    if rows.draws > 1:  # then there are no margins
        notes = (*notes, f"verdicts averaged over up to {rows.draws} strangers of each row")
    elif info.needs_user and verdicts.mirrored and isinstance(job.scorer, Scorer):
        scales = state_scales(job.scorer, rows, seed, job.work.session.store)
    summary = summarise(
        verdicts,
        benchmark=job.pairs.name,
        agreed_of=job.pairs.agreed,
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
        lacking=rows.n_lacking or None,
        split_texts=int(first.split.sum()),
        notes=notes,
        noise=noise,
        members=members_of(job, passes),
    )
    signs = () if is_baseline(job.spec) else tuple(_alarms(job, verdicts, passes, summary))
    return summary.model_copy(update={"alarms": signs})


def _alarms(
    job: BoundScorer, verdicts: Verdicts, passes: Sequence[Results], summary: Summary
) -> Iterator[alarms.Alarm]:
    """Look at all rows of a cell before they are believed."""
    codes, margins, longer = verdicts.by_text
    void, scored = (NO_STRANGER, "nothing shown"), summary.n_pairs - summary.unscored
    lost = {why: n for why, n in summary.unscored_reasons.items() if not why.endswith(void)}
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


LEAST_ROWS, LEAST_SHARE = 16, 0.02
"""Rows of a run in half precision that are computed in float32 too: the larger of the two."""
Kind = Literal["rounding", "asking again"]
JOURNALS: Mapping[Kind, str] = {
    "rounding": "float32.journal.jsonl",
    "asking again": "again.journal.jsonl",
}
NO_SPEC = "the scorer is an object, not a spec, so palate cannot build it a second time"
NOT_WANTED = "not asked for (--noise-rows 0)"
NO_ROOM = "the model in float32 does not fit into memory"


class FirstRun(NamedTuple):
    """What a run computed and gave, and where it lies."""

    computation: Computation
    verdicts: Verdicts | None
    """None of a shard, which gives none: a sample is computed, and says nothing yet."""
    folder: Path | None
    progress: Progress


Again = tuple[Noise | None, Verdicts | None]
"""What a second computation of some rows says, and its verdicts; None where it does not apply."""


def sampled(pairs: Dataset, n: int, seed: int) -> list[int]:
    """Return n rows or more in order, whole couples, by hash(seed, id): more rows hold fewer."""
    ids = [row.id for row in pairs.rows]
    others = {a: b for couple in pairs.couples for a, b in (couple, couple[::-1])}
    units = {min(k, others.get(k, k), key=lambda k: (ids[k], k)) for k in range(len(ids))}
    chosen: set[int] = set()
    for k in sorted(units, key=lambda k: (unit("computed twice", seed, ids[k]), ids[k])):
        if len(chosen) < n:
            chosen |= {k, others.get(k, k)}
    return sorted(chosen)


def recomputed(job: BoundScorer, run: FirstRun, twice: RecomputeOptions) -> Again:
    """Compute a sample of a run's rows a second time.

    It does not apply to float32, an endpoint that nobody wants asked again, and whatever reads no
    model. What an earlier call kept stays unless an option says otherwise.
    """
    if any(details.get("base_url") for details in run.computation.details):
        return _asked_again(job, run, twice.ask_again)
    settings, dtype = job.work.settings, "float32"
    if settings.dtype != dtype and run.computation.models:
        dtype = str(choose_dtype(settings.dtype, choose_device(settings.device)))
    if dtype.endswith("float32"):
        return None, None
    return _in_float32(job, run, twice, dtype.removeprefix("torch."))


def _asked_again(job: BoundScorer, run: FirstRun, share: float) -> Again:
    if not share:
        return _earlier_sample(run, "asking again", 1)
    if job.text is None:
        return Noise(kind="asking again", note=NO_SPEC), None
    work = replace(job.work, session=job.work.session.without_replies())
    n = math.ceil(share * len(job.pairs.rows))
    return _measured(replace(job, work=work), run, "asking again", n)


def _in_float32(job: BoundScorer, run: FirstRun, twice: RecomputeOptions, dtype: str) -> Again:
    rows, n = len(job.pairs.rows), twice.noise_rows
    n = min(rows, max(LEAST_ROWS, math.ceil(LEAST_SHARE * rows)) if n is None else n)
    if not n or job.text is None:
        return Noise(kind="rounding", dtype=dtype, note=NO_SPEC if n else NOT_WANTED), None
    noise, again = _earlier_sample(run, "rounding", n, dtype)
    if twice.noise_rows is None and again is not None:
        return noise, again
    exact = {"dtype": "float32", "compile": "off"}
    settings = job.work.settings.model_copy(update=exact)
    second = replace(job, work=replace(job.work, settings=settings))
    return _measured(second, run, "rounding", n, dtype)


def _earlier_sample(run: FirstRun, kind: Kind, least: int, dtype: str | None = None) -> Again:
    """Return what the run's folder holds of this kind, of so many rows at least."""
    if run.verdicts is None or run.folder is None or not (run.folder / AGAIN).is_file():
        return None, None
    try:
        earlier = Run.read(run.folder)
    except RunError:  # unfinished
        return None, None
    noise, again = earlier.summary.noise, earlier.again
    if noise is None or again is None or noise.kind != kind or len(again) < least:
        return None, None
    return noise_of(run.verdicts, again, kind, dtype), again


def _measured(
    job: BoundScorer, run: FirstRun, kind: Kind, n: int, dtype: str | None = None
) -> Again:
    """Compute n rows of a job that is like the run's but for its settings or session."""
    assert job.text is not None, "an object is not built twice"
    scorer = with_states_of(job.work.scorer(job.text), job.scorer, job.pairs, job.spec)
    job, pairs = replace(job, scorer=scorer), sampled(job.pairs, n, job.work.settings.seed)
    computation = job.computation(job.rows.of_pairs(pairs))
    if kind == "rounding" and computation.fingerprints == run.computation.fingerprints:
        return None, None  # such as of sentence embedders, which compute in float32 always
    with journal_in(run.folder, JOURNALS[kind]) as journal:
        try:
            passes = computation.run(journal, None, run.progress, check_memory=True)
        except Exception as error:  # what runs out of memory is anybody's guess
            if kind == "asking again" or not is_out_of_memory(error):
                raise
            return Noise(kind=kind, dtype=dtype, note=NO_ROOM), None
    if run.verdicts is None:
        return None, None
    again = Verdicts(verdict_rows(job, passes, pairs))
    return noise_of(run.verdicts, again, kind, dtype), again


JOURNAL = "undecided.journal.jsonl"


def with_rows(job: BoundScorer, rows: tuple[PreferencePair, ...]) -> BoundScorer:
    """Return the same for undecided rows, beside those that a run evaluates."""
    known = (*job.pairs.everyone, *job.pairs.rows)
    pairs = replace(job.pairs, rows=rows, undecided=(), mirrored=False, everyone=known)
    seed, keys, draws = job.work.settings.seed, job.rows.user_keys, job.rows.state_draws
    shown = ContextRows(pairs, job.context, seed, keys, draws, NOBODY_LIVE)
    return replace(job, pairs=pairs, rows=shown)


def score_undecided(
    job: BoundScorer, folder: Path | None, progress: Progress
) -> tuple[Verdicts | None, int]:
    """Score the undecided rows of a run that are rated, as the run's own rows are.

    Returns their ratings and scores, None where there is no such row, and how many an outage left.
    The plan, verdicts and figures of the run stay what they are without them: this is a pass of its
    own, whose journal lies in the run's folder. Judges and means over strangers have no scores of
    single responses, so nothing is computed for them.
    """
    if not job.pairs.undecided_to_rate:
        return None, 0
    job = with_rows(job, job.pairs.undecided_to_rate)
    if job.judges or job.rows.draws > 1:
        return Verdicts(undecided_rows(job, ())), 0
    with journal_in(folder, JOURNAL) as journal:
        passes = job.computation(job.rows).run(journal, job.work.root, progress)
    if job.work.shard is not None:  # the last command reads what it journalled
        return None, 0
    return Verdicts(undecided_rows(job, passes)), lost_rows(passes)
