"""Which share of the users is worse off under one context than under another."""

from __future__ import annotations

import numpy as np

from palate import metrics
from palate.errors import ComparisonError
from palate.runs import ReportedEstimate, Run


def users_harmed(run: Run, against: Run, *, seed: int = 0) -> ReportedEstimate:
    """Return the share of users whose accuracy is lower in `run` than in `against`.

    Both runs are of one scorer on the same rows. Counted are rows scored in both of which either
    run shows a part of the user; where neither shows any, all rows scored in both. The share is
    that of a normal model of users' true differences, with an interval by user, and by question
    where users share questions (`metrics.harmed_share`); n counts the users behind it.

    Raises `ComparisonError` for runs of two scorers, of other rows, or on mirrored couples.

    >>> from palate.evaluation import evaluate
    >>> run = evaluate("tasting", "longest", root=None)
    >>> users_harmed(run, run)
    Traceback (most recent call last):
    palate.errors.ComparisonError: longest: on mirrored couples the couple is the unit, not the user
    """
    summary, base = run.summary, against.summary
    if (summary.benchmark, summary.scorer) != (base.benchmark, base.scorer):
        raise ComparisonError(
            f"{summary.scorer} on {summary.benchmark} and {base.scorer} on {base.benchmark}: users "
            "harmed needs two runs of one scorer on one benchmark"
        )
    if not run.verdicts.same_rows(against.verdicts):
        raise ComparisonError(
            f"{summary.scorer}: the runs of {summary.context} and {base.context} differ "
            "in their rows"
        )
    if run.verdicts.mirrored:
        raise ComparisonError(
            f"{summary.scorer}: on mirrored couples the couple is the unit, not the user"
        )
    v, w = run.verdicts.by_id(), against.verdicts.by_id()
    shown = np.maximum(v.own_words, w.own_words) > 0
    if not shown.any():
        shown[:] = True
    differences = np.where(shown, v.values - w.values, np.nan)
    # A constant question is none: what users then share are texts, if anything.
    shared = v.clusters.take(~np.isnan(differences)).items is not None
    questions = v.question_codes if shared else None
    share = metrics.harmed_share(differences, v.user_codes, questions, seed=seed)
    return ReportedEstimate.of(share)
