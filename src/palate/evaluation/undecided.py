"""Responses of rated rows that their users called ties: scored beside a run, for ratings alone."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from palate.evaluation.bound_scorer import BoundScorer
from palate.evaluation.context_rows import NOBODY_LIVE, ContextRows
from palate.evaluation.verdict_rows import undecided_rows
from palate.records import PreferencePair, Progress
from palate.runs import Journal, Verdicts

JOURNAL = "undecided.journal.jsonl"


class UndecidedRows(NamedTuple):
    """Ratings and scores of undecided rows."""

    rows: Verdicts | None
    """None where there is no such row."""
    outages: int


def beside(job: BoundScorer, rows: tuple[PreferencePair, ...]) -> BoundScorer:
    """Return the same for undecided rows, beside those that a run evaluates."""
    pairs = replace(
        job.pairs,
        rows=rows,
        undecided=(),
        mirrored=False,
        everyone=(*job.pairs.everyone, *job.pairs.rows),
    )
    seed, keys, draws = job.work.settings.seed, job.rows.user_keys, job.rows.state_draws
    return replace(
        job, pairs=pairs, rows=ContextRows(pairs, job.context, seed, keys, draws, NOBODY_LIVE)
    )


def score_undecided(job: BoundScorer, folder: Path | None, progress: Progress) -> UndecidedRows:
    """Score the undecided rows of a run that are rated, as the run's own rows are.

    The plan, verdicts and figures of the run stay what they are without them: this is a pass of its
    own, whose journal lies in the run's folder. Judges and means over strangers have no scores of
    single responses, so nothing is computed for them.
    """
    undecided = job.pairs.undecided_to_rate
    if not undecided:
        return UndecidedRows(None, 0)
    job = beside(job, undecided)
    rows = job.rows
    if job.judges or rows.draws > 1:
        return UndecidedRows(Verdicts(undecided_rows(job, ())), 0)
    with ExitStack() as stack:
        journal = None
        if folder is not None:
            journal = stack.enter_context(Journal(folder / JOURNAL))
        passes = job.computation(rows).run(journal, job.work.root, progress)
    if job.work.shard is not None:  # the last command reads what it journalled
        return UndecidedRows(None, 0)
    outages = np.logical_or.reduce([results.outages for results in passes])
    return UndecidedRows(Verdicts(undecided_rows(job, passes)), int(outages.sum()))
