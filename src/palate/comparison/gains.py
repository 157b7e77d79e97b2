"""Does a context help, does it have to be this user's, what does it cost? Over the same rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Literal, cast

import numpy as np

from palate import metrics
from palate.comparison.paired import paired
from palate.comparison.redraws import Contrast, NoisySide, with_survival
from palate.contexts import NOTHING, shows, strangers_of
from palate.errors import ComparisonError, UsageError
from palate.metrics import minimum_detectable_effect
from palate.runs import Cost, Gain, ReportedEstimate, Run, with_holm
from palate.scorers import State, draws_of, is_baseline, scorers_with_state, state_of

MARGIN = 0.02
"""The largest tax that is called harmless, unless `--margin` says otherwise."""
Kind = Literal["gain", "identity"]
Key = tuple[str, str, str]
"""Benchmark, scorer and context."""
STATE_GAINS: tuple[tuple[Kind, State], ...] = (("gain", "prior"), ("identity", "stranger"))


def gains_of(runs: Sequence[Run], missing: Sequence[tuple[str, str, str]] = ()) -> list[Gain]:
    """Return gain and identity gain of every run that shows something.

    gain = acc(context) − acc(none); identity gain = acc(context) − acc(the same of a stranger).
    A gain that needs a run that is not there has no value. `missing` lists cells without meaning,
    (benchmark, scorer, context). p-values are Holm-corrected over the
    gains of a benchmark, oracles and baselines apart. Where runs have noise, a gain below 5 % says
    in which share of redraws it stays there.
    """
    by_cell = {run.cell: run for run in runs}
    cells = [*by_cell, *missing]
    gains: list[Gain] = []
    for (benchmark, scorer, context), run in by_cell.items():
        gains += _state_gains(run, by_cell)
        if shows(context) not in ("user", "stranger"):  # what others cost is told by itself
            continue
        contexts = [shown for name, by, shown in cells if (name, by) == (benchmark, scorer)]
        for kind, against in _partners(context, run.summary.oracle, contexts):
            base, other = _unknown(run, kind, against), by_cell.get((benchmark, scorer, against))
            gains.append(base if other is None else gain(run, other, base))
    tables = [None if one.oracle or is_baseline(one.scorer) else one.benchmark for one in gains]
    return _redrawn(with_holm(gains, [one.p for one in gains], tables), tables, by_cell)


def _unknown(run: Run, kind: Kind, against: str) -> Gain:
    cell = dict(zip(("benchmark", "scorer", "context"), run.cell, strict=True))
    return Gain(**cell, kind=kind, against=against, oracle=run.summary.oracle)


def _redrawn(
    gains: Sequence[Gain], tables: Sequence[str | None], by_cell: Mapping[Key, Run]
) -> list[Gain]:
    """Return gains with the share of redraws in which each stays, where runs have noise."""
    if not any(run.again is not None for run in by_cell.values()):
        return list(gains)
    sides = {cell: NoisySide.of(run, run.verdicts) for cell, run in by_cell.items()}
    contrasts: dict[int, Contrast] = {}
    for k, (each, table) in enumerate(zip(gains, tables, strict=True)):
        other = against(each, by_cell)
        if other is not None and each.p is not None:
            own = sides[each.benchmark, each.scorer, each.context]
            contrasts[k] = Contrast(own, sides[other.cell], table, each, each.state_against is None)
    return with_survival(gains, contrasts)


def against(gain: Gain | None, by_cell: Mapping[Key, Run]) -> Run | None:
    """Return the run that a gain is over; None where it is not there."""
    if gain is None:
        return None
    if gain.state_against is None:
        return by_cell.get((gain.benchmark, gain.scorer, gain.against))
    scorers = _scorers(by_cell, gain.benchmark, gain.context)
    state = cast(State, gain.state_against)
    other = next(iter(scorers_with_state(gain.scorer, state, scorers)), None)
    return None if other is None else by_cell[gain.benchmark, other, gain.context]


def _state_gains(run: Run, by_cell: Mapping[Key, Run]) -> list[Gain]:
    """Return what a user's own state gains over the prior's and over a stranger's."""
    (benchmark, scorer, context), gains = run.cell, []
    if state_of(scorer) != "own":
        return []
    for kind, state in STATE_GAINS:
        for other in scorers_with_state(scorer, state, _scorers(by_cell, benchmark, context)):
            draws = draws_of(other)
            base = _unknown(run, kind, f"state={state}" + (f"&draws={draws}" if draws else ""))
            against = by_cell[benchmark, other, context]
            gains.append(gain(run, against, base, all_rows=True))
    return gains


def _scorers(cells: Iterable[Key], benchmark: str, context: str) -> list[str]:
    return [scorer for name, scorer, shown in cells if (name, shown) == (benchmark, context)]


def gain(run: Run, other: Run, base: Gain, *, all_rows: bool = False) -> Gain:
    """Fill in a gain over rows (couples) that both scored; of contexts those with an own part."""
    ours, theirs = run.verdicts, other.verdicts
    if not ours.same_rows(theirs):
        raise ComparisonError(
            f"{base.scorer}: the runs of {base.context} and {base.against} differ"
        )
    difference = paired(ours, theirs, counted=None if all_rows else ours.own_words > 0)
    estimate = difference.estimate
    effect = minimum_detectable_effect(estimate.se, estimate.df)
    more = {"n_left_out": difference.n_all - estimate.n, "minimum_detectable_effect": effect}
    return base.model_copy(update=difference.figures | more)


def _partners(context: str, oracle: bool, asked: Sequence[str]) -> list[tuple[Kind, str]]:
    controls: list[tuple[Kind, str]] = [("gain", NOTHING)] if NOTHING in asked else []
    strangers = [] if oracle else strangers_of(context, asked)
    return [*controls, *(("identity", other) for other in strangers)]


def costs_of(runs: Sequence[Run], *, margin: float = MARGIN) -> list[Cost]:
    """Return what borrowed users and pressure cost each scorer, over the same scorer shown nothing.

    ``tax = accuracy(nothing) − accuracy(shown)``, over rows that show somebody and are scored both
    ways. Of runs of `--agreed only` a row's own user has a tax as well. Raises `UsageError` for a
    margin outside (0, ½), `ComparisonError` for runs of other rows.

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
        own = kind == "user" and run.agreed and not run.summary.oracle
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
    costs, harmless = (tax.low or 0.0) > 0, tested.finding == "shown"
    follows = metrics.clustered_mean(np.where(x > 0.5, 1 - y, np.nan), by)
    return Cost(
        **dict(zip(("benchmark", "scorer", "context"), run.cell, strict=True)),
        nothing=metrics.accuracy(np.where(np.isnan(y), y, x), by).value,
        shown=ReportedEstimate.of(metrics.accuracy(y, by)),
        tax=ReportedEstimate.of(tax),
        margin=margin,
        finding=("not shown", "harmless", "costs", "costs less")[2 * costs + harmless],
        p=tested.p,
        n_needed=None if costs or harmless else tested.n_needed,
        follows=ReportedEstimate.of(follows) if run.summary.oracle else None,
    )
