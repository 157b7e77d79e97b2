"""What it costs to show a user where nothing is personal: facts, safety, what all agree on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from palate import metrics
from palate.contexts import NOTHING, shows
from palate.errors import ComparisonError, UsageError
from palate.runs import Cost, ReportedEstimate, Run

MARGIN = 0.02
"""The largest tax that is called harmless, unless `--margin` says otherwise."""


def costs_of(runs: Sequence[Run], *, margin: float = MARGIN, agreed: bool = False) -> list[Cost]:
    """Return what borrowed users and pressure cost each scorer, over the same scorer shown nothing.

    ``tax = accuracy(nothing) − accuracy(shown)``, over rows that show somebody and are scored both
    ways. `agreed` says that all users agree on these rows, so that a row's own user has a tax as
    well. Raises `UsageError` for a margin outside (0, ½), `ComparisonError` for runs of other rows.

    >>> from palate.comparison import evaluate
    >>> cost, = costs_of(evaluate("tasting", ["longest"], ["none", "pressure"], root=None).runs)
    >>> cost.tax.value, cost.follows.value, cost.finding
    (0.0, 0.0, 'not shown')
    """
    if not 0 < margin < 0.5:
        raise UsageError(f"--margin {margin:g}: expected a fall in accuracy between 0 and 0.5")
    plain = {run.cell[:2]: run for run in runs if run.summary.context == NOTHING}
    costs = []
    for run in runs:
        kind = shows(run.summary.context)
        own = agreed and kind == "user" and not run.summary.oracle
        if own or kind in ("borrowed", "pressure"):
            costs.append(_cost(run, plain.get(run.cell[:2]), margin))
    return costs


def _cost(run: Run, plain: Run | None, margin: float) -> Cost:
    after = run.verdicts.by_id()
    before = after if plain is None else plain.verdicts.by_id()
    if not after.same_rows(before):
        raise ComparisonError(f"{' under '.join(run.cell[1:])}: the run shown nothing differs")
    y, by = np.where(after.own_words > 0, after.values, np.nan), after.clusters
    x = np.full(len(y), np.nan) if plain is None else np.where(np.isnan(y), y, before.values)
    tax = metrics.paired_difference(x, y, by)
    if plain is None:
        tax = replace(tax, note="the scorer has no run shown nothing")
    else:
        y = np.where(np.isnan(x), x, y)
    tested = metrics.non_inferiority(tax, margin=margin)
    harmless = tested.finding == "shown"
    finding = "harmless" if harmless else "not shown"
    if (tax.low or 0.0) > 0:
        finding = "costs less" if harmless else "costs"
    follows = metrics.clustered_mean(np.where(x > 0.5, 1 - y, np.nan), by)
    return Cost(
        **dict(zip(("benchmark", "scorer", "context"), run.cell, strict=True)),
        nothing=metrics.accuracy(np.where(np.isnan(y), y, x), by).value,
        shown=ReportedEstimate.of(metrics.accuracy(y, by)),
        tax=ReportedEstimate.of(tax),
        margin=margin,
        finding=finding,
        p=tested.p,
        n_needed=tested.n_needed,
        n_left_out=len(y) - tax.n,
        follows=ReportedEstimate.of(follows) if run.summary.oracle else None,
    )
